#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/marian_vocabulary.h"
#include "train/tokenizers/sentencepiece_pieces.h"

namespace moh {

/// One language of a Marian tokenizer: the pieces of its SentencePiece model with the ids of a vocabulary.
/// Immutable and thread-safe.
class MarianSide {
 public:
  /// `unknown` has the id of pieces that the vocabulary lacks. `added`, it among them, are found in texts
  /// before these are cut, with the ids that they say.
  MarianSide(std::shared_ptr<const SentencePieces> pieces, const MarianVocabulary& vocabulary,
             std::vector<AddedToken> added, std::string_view unknown);

  /// Ids below which all tokens lie.
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  /// Appends the ids of a text. In the middle of one, nothing is put before it, and no code is looked for.
  void encode(std::string_view text, TextPlace place, std::vector<TokenId>& ids) const;
  /// The bytes that an id below size() stands for; none for special tokens.
  std::string_view bytes(TokenId id) const { return bytes_[static_cast<std::size_t>(id)]; }
  /// The added token of an id; "" for others.
  std::string_view added_text(TokenId id) const;

 private:
  TokenId id_of(const std::string& token) const;
  void encode_between(std::string_view text, TextPlace place, std::vector<TokenId>& ids) const;

  std::shared_ptr<const SentencePieces> pieces_;
  std::vector<AddedToken> added_;
  AddedTokens in_text_;
  std::unordered_map<std::string, TokenId> ids_;
  TokenId unknown_ = 0;
  std::vector<TokenId> by_piece_;
  std::vector<std::string> bytes_;
};

}  // namespace moh
