#include "train/tokenizers/marian_side.h"

#include <algorithm>
#include <utility>

#include "train/base/io/printable.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

namespace {

/// The bytes of tokens that are pieces, or stand for themselves: those of the other language's model, too.
std::string bytes_of_token(const std::unordered_map<std::string_view, TokenId>& pieces,
                           const SentencePieces& model, const std::string& token) {
  const auto piece = pieces.find(token);
  return piece == pieces.end() ? with_spaces(token) : model.bytes_of(piece->second);
}

}  // namespace

MarianSide::MarianSide(std::shared_ptr<const SentencePieces> pieces, const MarianVocabulary& vocabulary,
                       std::vector<AddedToken> added, std::string_view unknown)
    : pieces_(std::move(pieces)), added_(std::move(added)), in_text_(added_) {
  std::unordered_map<std::string_view, TokenId> by_text;
  const std::vector<SentencePieceModel::Piece>& known = pieces_->model().pieces;
  for (std::size_t i = 0; i < known.size(); ++i) by_text.emplace(known[i].text, static_cast<TokenId>(i));
  for (const std::string& token : vocabulary.tokens) {
    if (!token.empty()) ids_.emplace(token, static_cast<TokenId>(bytes_.size()));
    bytes_.push_back(bytes_of_token(by_text, *pieces_, token));
  }
  for (const AddedToken& token : added_) {
    ids_[token.content] = token.id;
    const auto place = static_cast<std::size_t>(token.id);
    if (place >= bytes_.size()) bytes_.resize(place + 1);
    bytes_[place] = token.special ? std::string() : token.content;
  }
  unknown_ = ids_.at(std::string(unknown));
  for (const SentencePieceModel::Piece& piece : known) by_piece_.push_back(id_of(piece.text));
}

std::string_view MarianSide::added_text(TokenId id) const {
  const auto token = std::ranges::find(added_, id, &AddedToken::id);
  return token == added_.end() ? std::string_view() : token->content;
}

TokenId MarianSide::id_of(const std::string& token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? unknown_ : found->second;
}

void MarianSide::encode(std::string_view text, TextPlace place, std::vector<TokenId>& ids) const {
  std::string repaired;
  if (!is_utf8(text)) {
    repaired = with_valid_utf8(text);
    text = repaired;
  }
  in_text_.split(text, [&](const TextOrToken& part) {
    if (part.token)
      ids.push_back(*part.token);
    else
      encode_between(part.text, part.text.data() == text.data() ? place : TextPlace::kBeginning, ids);
  });
}

/// A language code, whatever it is, and the pieces of the rest. Unknown pieces may be tokens: those of the
/// other language are in a common vocabulary, too.
void MarianSide::encode_between(std::string_view text, TextPlace place, std::vector<TokenId>& ids) const {
  const std::size_t code_end = text.find("<<");
  if (place == TextPlace::kBeginning && text.starts_with(">>") && code_end != std::string_view::npos) {
    ids.push_back(id_of(std::string(text.substr(0, code_end + 2))));
    text.remove_prefix(code_end + 2);
  }
  const std::size_t begin = ids.size();
  std::vector<std::string> unknown;
  pieces_->encode(text, place, ids, &unknown);
  auto of_unknown = unknown.cbegin();
  for (std::size_t i = begin; i < ids.size(); ++i) {
    const TokenId piece = ids[i];
    ids[i] =
        piece == pieces_->model().unknown ? id_of(*of_unknown++) : by_piece_[static_cast<std::size_t>(piece)];
  }
}

}  // namespace moh
