#include "train/families/language/tokenizer_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"

namespace moh {

namespace {

std::string ids_below(std::int64_t rows) {
  return "ids below " + std::to_string(rows) + ", the rows of the model's embedding";
}

/// The id with its text, as messages show it.
std::string shown_token(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view special = tokenizer.special_text(id);
  return std::to_string(id) + " (" + printable(special.empty() ? tokenizer.token_bytes(id) : special) + ")";
}

class NarrowedTokenizer final : public Tokenizer {
 public:
  NarrowedTokenizer(std::unique_ptr<const Tokenizer> tokenizer, std::int64_t rows)
      : tokenizer_(std::move(tokenizer)), rows_(rows) {}

  std::string_view name() const override { return tokenizer_->name(); }
  std::int64_t vocab_size() const override { return rows_; }
  std::int64_t tokens() const { return tokenizer_->vocab_size(); }
  std::uint64_t content_hash() const override { return tokenizer_->content_hash(); }
  std::optional<TokenId> end_of_document() const override { return tokenizer_->end_of_document(); }
  const std::vector<TokenId>& sequence_start() const override { return tokenizer_->sequence_start(); }
  std::optional<TokenId> beginning() const override {
    const std::optional<TokenId> id = tokenizer_->beginning();
    return id && *id < rows_ ? id : std::nullopt;
  }
  bool drops_leading_space() const override { return tokenizer_->drops_leading_space(); }
  std::string cleaned_up(std::string text) const override { return tokenizer_->cleaned_up(std::move(text)); }
  const std::vector<TokenizerFile>& files() const override { return tokenizer_->files(); }
  bool encodes_in_pieces() const override { return tokenizer_->encodes_in_pieces(); }
  std::string_view token_bytes(TokenId id) const override { return tokenizer_->token_bytes(id); }
  std::string_view special_text(TokenId id) const override { return tokenizer_->special_text(id); }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    const std::size_t before = ids.size();
    tokenizer_->encode(text, ids);
    require_rows(ids, before);
  }
  void encode_rest(std::string_view text, std::vector<TokenId>& ids) const override {
    const std::size_t before = ids.size();
    tokenizer_->encode_rest(text, ids);
    require_rows(ids, before);
  }
  void encode_trusted(std::string_view text, bool begins, Trusts trusts,
                      std::vector<TokenId>& ids) const override {
    const std::size_t before = ids.size();
    tokenizer_->encode_trusted(text, begins, trusts, ids);
    require_rows(ids, before);
  }

 private:
  void require_rows(const std::vector<TokenId>& ids, std::size_t begin) const {
    const auto beyond = std::find_if(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end(),
                                     [&](TokenId id) { return id >= rows_; });
    if (beyond != ids.end())
      throw DataError(error_message("tokenizer", "text", ids_below(rows_), shown_token(*tokenizer_, *beyond),
                                    "take the token out of the text"));
  }

  std::unique_ptr<const Tokenizer> tokenizer_;
  std::int64_t rows_;
};

class TokensWithinRows final : public TokenSource {
 public:
  TokensWithinRows(TokenSourcePtr ids, std::int64_t rows, std::string file)
      : ids_(std::move(ids)), rows_(rows), file_(std::move(file)) {}

  std::int64_t size() const override { return ids_->size(); }
  void copy_marked(std::int64_t begin, std::span<TokenId> ids) const override {
    ids_->copy_marked(begin, ids);
    const auto beyond = std::ranges::find_if(ids, [&](TokenId id) { return unmarked(id) >= rows_; });
    if (beyond != ids.end())
      throw DataError(error_message(file_, "token " + std::to_string(begin + (beyond - ids.begin())),
                                    ids_below(rows_), std::to_string(unmarked(*beyond))));
  }

 private:
  TokenSourcePtr ids_;
  std::int64_t rows_;
  std::string file_;
};

/// Refuses a tokenizer that puts a token without a row into every text, or between documents.
void require_marks(const Tokenizer& tokenizer, std::int64_t rows, const std::string& where,
                   std::string_view key) {
  std::vector<TokenId> marks = tokenizer.sequence_start();
  if (const auto end = tokenizer.end_of_document()) marks.push_back(*end);
  for (const TokenId id : marks) {
    if (id >= rows)
      throw ConfigError(error_message(key, "",
                                      "at least " + std::to_string(id + 1) + ", as " + where +
                                          " puts the token " + shown_token(tokenizer, id) + " around texts",
                                      std::to_string(rows)));
  }
}

}  // namespace

std::unique_ptr<const Tokenizer> with_rows(std::unique_ptr<const Tokenizer> tokenizer, std::int64_t rows,
                                           const std::string& where, std::string_view key) {
  const std::int64_t tokens = tokenizer->vocab_size();
  if (tokens <= rows) return tokenizer;
  require_marks(*tokenizer, rows, where, key);
  if (const auto begin = tokenizer->beginning(); begin && *begin >= rows) {
    log_warning(where + ": bos_token " + shown_token(*tokenizer, *begin) +
                " has no row in the model's embedding: texts are scored after the token that ends documents");
  }
  log_warning(where + ": " + std::to_string(tokens) + " tokens, but the model's embedding has " +
              std::to_string(rows) + " rows: texts with a token from " +
              shown_token(*tokenizer, static_cast<TokenId>(rows)) +
              " on are refused; a training that begins from the model adds rows with " + std::string(key) +
              "=" + std::to_string(tokens));
  return std::make_unique<NarrowedTokenizer>(std::move(tokenizer), rows);
}

std::int64_t whole_vocabulary(const Tokenizer& tokenizer) {
  const auto* const narrowed = dynamic_cast<const NarrowedTokenizer*>(&tokenizer);
  return narrowed != nullptr ? narrowed->tokens() : tokenizer.vocab_size();
}

TokenSourcePtr within_rows(TokenSourcePtr ids, std::int64_t rows, std::string file) {
  return std::make_shared<TokensWithinRows>(std::move(ids), rows, std::move(file));
}

}  // namespace moh
