#include "train/tokenizers/sentencepiece.h"

#include <xxhash.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/named_tokens.h"
#include "train/tokenizers/sentencepiece_model.h"
#include "train/tokenizers/sentencepiece_pieces.h"

namespace moh {

namespace {

constexpr std::uint64_t kMaxSentencePieceBytes = std::uint64_t{256} << 20;

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(SentencePieceModel model, std::uint64_t content_hash, const std::string& where)
      : pieces_(std::move(model), where), content_hash_(content_hash) {
    const SentencePieceModel& of = pieces_.model();
    for (TokenId id = 0; id < std::ssize(of.pieces); ++id) bytes_.push_back(pieces_.bytes_of(id));
    end_of_document_ = of.end;
    beginning_ = of.begin;
    if (of.begin) sequence_start_ = {*of.begin};
  }

  std::string_view name() const override { return "tokenizer.model"; }
  std::int64_t vocab_size() const override { return std::ssize(bytes_); }
  std::uint64_t content_hash() const override { return content_hash_; }
  std::optional<TokenId> end_of_document() const override { return end_of_document_; }
  const std::vector<TokenId>& sequence_start() const override { return sequence_start_; }
  std::optional<TokenId> beginning() const override { return beginning_; }
  bool drops_leading_space() const override {
    return pieces_.model().adds_prefix || pieces_.model().removes_extra_spaces;
  }
  const std::vector<TokenizerFile>& files() const override { return files_; }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    encode_text(text, TextPlace::kBeginning, ids);
  }
  void encode_rest(std::string_view text, std::vector<TokenId>& ids) const override {
    encode_text(text, TextPlace::kMiddle, ids);
  }
  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || id >= vocab_size()) {
      throw ValueError(error_message("tokenizer", "token id", "0 ... " + std::to_string(vocab_size() - 1),
                                     std::to_string(id)));
    }
    return bytes_[static_cast<std::size_t>(id)];
  }
  std::string_view special_text(TokenId id) const override {
    if (!token_bytes(id).empty()) return {};
    return pieces_.model().pieces[static_cast<std::size_t>(id)].text;
  }

  void use(const TokenizerUse& use) {
    if (use.begins_with_bos == false) sequence_start_.clear();
    const auto piece_named = [&](std::string_view key, const std::string& name) {
      const std::optional<TokenId> piece = pieces_.find(name);
      if (!piece) {
        throw DataError(
            error_message(use.file, key, "a piece of the SentencePiece model", "'" + printable(name) + "'"));
      }
      return *piece;
    };
    if (use.begin && sequence_start_.empty()) beginning_ = piece_named("bos_token", *use.begin);
    if (!use.end) return;
    end_of_document_ = piece_named("eos_token", *use.end);
    bytes_[static_cast<std::size_t>(*end_of_document_)].clear();
  }
  /// Tokens that files beside name: one that is no piece is refused in texts.
  void compare(const std::vector<NamedToken>& named_tokens) {
    std::vector<AddedToken> others;
    for (const NamedToken& named : named_tokens) {
      const std::string& content = named.token.content;
      const std::optional<TokenId> id = pieces_.find(content);
      if (!id) {
        others.push_back({.id = kTokenWithoutId, .content = content});
      } else if (named.has_id() && named.token.id != *id) {
        throw DataError(error_message(named.file, named.place,
                                      "the id " + std::to_string(*id) + " of '" + printable(content) + "'",
                                      std::to_string(named.token.id)));
      }
    }
    refused_ = AddedTokens(others);
  }
  void keep(std::vector<TokenizerFile> files) { files_ = std::move(files); }

 private:
  void encode_text(std::string_view text, TextPlace place, std::vector<TokenId>& ids) const {
    std::string repaired;
    if (!is_utf8(text)) {
      repaired = with_valid_utf8(text);
      text = repaired;
    }
    refused_.split(text, [](const TextOrToken& part) {
      if (part.token) refuse_token(part.text);
    });
    pieces_.encode(text, place, ids);
  }

  SentencePieces pieces_;
  std::uint64_t content_hash_;
  AddedTokens refused_{{}};
  std::vector<std::string> bytes_;
  std::optional<TokenId> end_of_document_, beginning_;
  std::vector<TokenId> sequence_start_;
  std::vector<TokenizerFile> files_;
};

}  // namespace

std::unique_ptr<const Tokenizer> read_sentencepiece(const std::filesystem::path& path) {
  const std::string where = printable_path(path);
  std::string bytes = read_text_file(path, InputKind::kData, kMaxSentencePieceBytes);
  auto tokenizer = std::make_unique<SentencePiece>(parse_sentencepiece_model(bytes, where),
                                                   XXH3_64bits(bytes.data(), bytes.size()), where);
  tokenizer->use(read_tokenizer_use(path));
  tokenizer->compare(read_named_tokens(path));
  std::vector<TokenizerFile> files = files_of_use(path);
  files.insert(files.begin(), {"tokenizer.model", std::move(bytes)});
  tokenizer->keep(std::move(files));
  return tokenizer;
}

}  // namespace moh
