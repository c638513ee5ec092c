#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/bpe.h"
#include "train/tokenizers/piece_trie.h"
#include "train/tokenizers/sentencepiece_model.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// A model's pieces as a byte-pair encoding. Any two neighbours whose text together is a piece are merged,
/// the piece of the highest score first. Characters that are part of pieces, and none themselves, get ids
/// behind those of the vocabulary.
struct PieceMerges {
  BpeTables tables;
  std::vector<std::string> characters;  ///< by id, from the size of the vocabulary on
};

/// Throws DataError, naming `where`, for a model with unused pieces.
PieceMerges piece_merges(const SentencePieceModel& model, const std::string& where);

/// Ids of <0x00> ... <0xFF>; none without byte_fallback.
std::vector<TokenId> byte_tokens_of(const SentencePieceModel& model);

/// The score of a user-defined piece, whatever the model says: above those of other ways to write it, the
/// more so the longer it is, as since version 0.2.1 of sentencepiece. (Before, it was length * highest score
/// - 0.1.)
float user_defined_score(std::string_view piece);

/// The most probable way to cut a text into pieces of a unigram language model (Kudo 2018, arXiv
/// 1804.10959): the path of the highest sum of scores through all pieces that occur in it, by Viterbi's
/// algorithm. Immutable and thread-safe.
class Unigram {
 public:
  explicit Unigram(const SentencePieceModel& model);

  /// A piece of a text; `text` of the unknown one is a character.
  struct Part {
    TokenId id = 0;
    std::string_view text;
  };
  /// The parts of a text in valid UTF-8, in order.
  void cut(std::string_view text, std::vector<Part>& parts) const;

 private:
  PieceTrie pieces_;
  std::vector<float> scores_;
  std::size_t longest_ = 4;  // bytes of a piece or a character
  TokenId unknown_;
  float unknown_score_ = 0;
};

}  // namespace moh
