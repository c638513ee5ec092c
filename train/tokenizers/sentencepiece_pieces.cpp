#include "train/tokenizers/sentencepiece_pieces.h"

#include <algorithm>
#include <utility>

#include "train/base/io/printable.h"

namespace moh {

namespace {

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

}  // namespace

SentencePieces::SentencePieces(SentencePieceModel model, const std::string& where)
    : model_(std::move(model)),
      user_defined_(user_defined_pieces(model_)),
      user_defined_tokens_(user_defined_tokens(model_)),
      normalizer_(model_, user_defined_, where),
      byte_tokens_(byte_tokens_of(model_)) {
  if (model_.is_unigram) {
    unigram_.emplace(model_);
  } else {
    PieceMerges merges = piece_merges(model_, where);
    has_all_characters_ = merges.characters.empty();
    bpe_.emplace(std::move(merges.tables));
  }
}

std::optional<TokenId> SentencePieces::find(std::string_view piece) const {
  const auto found = std::ranges::find(model_.pieces, piece, &SentencePieceModel::Piece::text);
  if (found == model_.pieces.end()) return std::nullopt;
  return static_cast<TokenId>(found - model_.pieces.begin());
}

std::string SentencePieces::bytes_of(TokenId id) const {
  const SentencePieceModel::Piece& piece = model_.pieces[static_cast<std::size_t>(id)];
  if (piece.type == PieceType::kControl) return {};
  if (piece.type == PieceType::kUnknown) return model_.unknown_text;
  if (piece.type == PieceType::kByte)
    return std::string(1, static_cast<char>(std::stoul(piece.text.substr(3, 2), nullptr, 16)));
  return with_spaces(piece.text);
}

void SentencePieces::encode(std::string_view text, TextPlace place, std::vector<TokenId>& ids,
                            std::vector<std::string>* unknown) const {
  const std::string normalized = normalizer_(text, place);
  Output to{ids, unknown};
  unigram_ ? encode_unigram(normalized, to) : encode_bpe(normalized, to);
}

void SentencePieces::encode_unigram(std::string_view text, Output& to) const {
  thread_local std::vector<Unigram::Part> parts;
  unigram_->cut(text, parts);
  for (const Unigram::Part& part : parts) add(part.id, part.text, to);
}

void SentencePieces::encode_bpe(std::string_view text, Output& to) const {
  const std::size_t begin = to.ids.size();
  user_defined_tokens_.split(text, [&](const TextOrToken& part) {
    if (part.token)
      to.ids.push_back(*part.token);
    else
      bpe_->encode(part.text, to.ids);
  });
  // Symbols that are no pieces are written as bytes, or as unknown.
  if (has_all_characters_ && model_.byte_fallback) return;
  const std::vector<TokenId> symbols(to.ids.begin() + static_cast<std::ptrdiff_t>(begin), to.ids.end());
  to.ids.resize(begin);
  for (const TokenId symbol : symbols) {
    const std::size_t bytes = bytes_of_symbol(symbol, text);
    add(symbol < std::ssize(model_.pieces) ? symbol : model_.unknown, text.substr(0, bytes), to);
    text.remove_prefix(bytes);
  }
}

/// Bytes of `text` that its first symbol stands for: a piece, a byte, or a character that is no piece.
std::size_t SentencePieces::bytes_of_symbol(TokenId id, std::string_view text) const {
  if (id >= std::ssize(model_.pieces) || id == model_.unknown) return first_character(text).size();
  const SentencePieceModel::Piece& piece = model_.pieces[static_cast<std::size_t>(id)];
  return piece.type == PieceType::kByte ? 1 : piece.text.size();
}

/// Adds an id; that of an unknown text as its bytes, or once for a row of them.
void SentencePieces::add(TokenId id, std::string_view text, Output& to) const {
  const bool is_unknown = id == model_.unknown;
  if (is_unknown && model_.byte_fallback) {
    for (const char byte : text) to.ids.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
  } else {
    const bool continues = is_unknown && to.after_unknown;
    if (!continues) to.ids.push_back(id);
    if (is_unknown && to.unknown != nullptr) {
      if (!continues) to.unknown->emplace_back();
      to.unknown->back() += text;
    }
  }
  to.after_unknown = is_unknown;
}

std::string with_spaces(std::string text) {
  constexpr std::string_view kSpace = "\u2581";
  for (std::size_t at = text.find(kSpace); at != std::string::npos; at = text.find(kSpace, at + 1))
    text.replace(at, kSpace.size(), " ");
  return text;
}

}  // namespace moh
