#include "train/tokenizers/sentencepiece.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/bpe.h"
#include "train/tokenizers/files_of_use.h"
#include "train/tokenizers/named_tokens.h"
#include "train/tokenizers/sentencepiece_model.h"
#include "train/tokenizers/sentencepiece_normalizer.h"
#include "train/tokenizers/sentencepiece_segmentation.h"

namespace moh {

namespace {

constexpr std::uint64_t kMaxSentencePieceBytes = std::uint64_t{256} << 20;

PieceTrie user_defined_pieces(const SentencePieceModel& model) {
  std::vector<PieceTrie::Piece> pieces;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == PieceType::kUserDefined)
      pieces.push_back({model.pieces[id].text, static_cast<std::int32_t>(id)});
  }
  return PieceTrie(std::move(pieces));
}

AddedTokens user_defined_tokens(const SentencePieceModel& model) {
  std::vector<AddedToken> tokens;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == PieceType::kUserDefined)
      tokens.push_back({.id = static_cast<TokenId>(id), .content = model.pieces[id].text});
  }
  return AddedTokens(tokens);
}

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(SentencePieceModel model, std::uint64_t content_hash, const std::string& where)
      : model_(std::move(model)),
        content_hash_(content_hash),
        user_defined_(user_defined_pieces(model_)),
        user_defined_tokens_(user_defined_tokens(model_)),
        normalizer_(model_, user_defined_, where),
        byte_tokens_(byte_tokens_of(model_)) {
    if (model_.is_unigram) {
      unigram_.emplace(model_);
    } else {
      PieceMerges merges = piece_merges(model_, where);
      characters_ = std::move(merges.characters);
      bpe_.emplace(std::move(merges.tables));
    }
    for (const SentencePieceModel::Piece& piece : model_.pieces) bytes_.push_back(bytes_of(piece));
    end_of_document_ = model_.end;
    beginning_ = model_.begin;
    if (model_.begin) sequence_start_ = {*model_.begin};
  }

  std::string_view name() const override { return "tokenizer.model"; }
  std::int64_t vocab_size() const override { return std::ssize(bytes_); }
  std::uint64_t content_hash() const override { return content_hash_; }
  std::optional<TokenId> end_of_document() const override { return end_of_document_; }
  const std::vector<TokenId>& sequence_start() const override { return sequence_start_; }
  std::optional<TokenId> beginning() const override { return beginning_; }
  bool drops_leading_space() const override { return model_.adds_prefix || model_.removes_extra_spaces; }
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
    return token_bytes(id).empty() ? std::string_view(model_.pieces[static_cast<std::size_t>(id)].text)
                                   : std::string_view();
  }

  void use(const TokenizerUse& use) {
    if (use.begins_with_bos == false) sequence_start_.clear();
    const auto piece_named = [&](std::string_view key, const std::string& name) {
      const auto piece = std::ranges::find(model_.pieces, name, &SentencePieceModel::Piece::text);
      if (piece == model_.pieces.end()) {
        throw DataError(
            error_message(use.file, key, "a piece of the SentencePiece model", "'" + printable(name) + "'"));
      }
      return static_cast<TokenId>(piece - model_.pieces.begin());
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
      const auto piece = std::ranges::find(model_.pieces, content, &SentencePieceModel::Piece::text);
      const auto id = static_cast<TokenId>(piece - model_.pieces.begin());
      if (piece == model_.pieces.end()) {
        others.push_back({.id = kTokenWithoutId, .content = content});
      } else if (named.has_id() && named.token.id != id) {
        throw DataError(error_message(named.file, named.place,
                                      "the id " + std::to_string(id) + " of '" + printable(content) + "'",
                                      std::to_string(named.token.id)));
      }
    }
    refused_ = AddedTokens(others);
  }
  void keep(std::vector<TokenizerFile> files) { files_ = std::move(files); }

 private:
  std::string bytes_of(const SentencePieceModel::Piece& piece) const {
    if (piece.type == PieceType::kControl) return {};
    if (piece.type == PieceType::kUnknown) return model_.unknown_text;
    if (piece.type == PieceType::kByte)
      return std::string(1, static_cast<char>(std::stoul(piece.text.substr(3, 2), nullptr, 16)));
    constexpr std::string_view kSpace = "\u2581";
    std::string text = piece.text;
    for (std::size_t at = text.find(kSpace); at != std::string::npos; at = text.find(kSpace, at + 1))
      text.replace(at, kSpace.size(), " ");
    return text;
  }

  void encode_text(std::string_view text, TextPlace place, std::vector<TokenId>& ids) const {
    std::string repaired;
    if (!is_utf8(text)) {
      repaired = with_valid_utf8(text);
      text = repaired;
    }
    refused_.split(text, [](const TextOrToken& part) {
      if (part.token) refuse_token(part.text);
    });
    const std::string normalized = normalizer_(text, place);
    unigram_ ? encode_unigram(normalized, ids) : encode_bpe(normalized, ids);
  }

  void encode_unigram(std::string_view text, std::vector<TokenId>& ids) const {
    thread_local std::vector<Unigram::Part> parts;
    unigram_->cut(text, parts);
    bool after_unknown = false;
    for (const Unigram::Part& part : parts) add(part.id, part.text, after_unknown, ids);
  }

  void encode_bpe(std::string_view text, std::vector<TokenId>& ids) const {
    const std::size_t begin = ids.size();
    user_defined_tokens_.split(text, [&](const TextOrToken& part) {
      if (part.token)
        ids.push_back(*part.token);
      else
        bpe_->encode(part.text, ids);
    });
    // Symbols that are no pieces are written as bytes, or as unknown.
    if (characters_.empty() && model_.byte_fallback) return;
    const std::vector<TokenId> symbols(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end());
    ids.resize(begin);
    bool after_unknown = false;
    for (const TokenId id : symbols) {
      const auto beyond = id - static_cast<TokenId>(vocab_size());
      if (beyond < 0)
        add(id, "", after_unknown, ids);
      else
        add(model_.unknown, characters_[static_cast<std::size_t>(beyond)], after_unknown, ids);
    }
  }

  /// Adds an id; that of an unknown text as its bytes, or once for a row of them.
  void add(TokenId id, std::string_view text, bool& after_unknown, std::vector<TokenId>& ids) const {
    const bool is_unknown = id == model_.unknown;
    if (is_unknown && model_.byte_fallback) {
      for (const char byte : text) ids.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
    } else if (!is_unknown || !after_unknown) {
      ids.push_back(id);
    }
    after_unknown = is_unknown;
  }

  SentencePieceModel model_;
  std::uint64_t content_hash_;
  PieceTrie user_defined_;
  AddedTokens user_defined_tokens_, refused_{{}};
  SentencePieceNormalizer normalizer_;
  std::vector<TokenId> byte_tokens_;
  std::vector<std::string> characters_, bytes_;
  std::optional<Unigram> unigram_;
  std::optional<Bpe> bpe_;
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
