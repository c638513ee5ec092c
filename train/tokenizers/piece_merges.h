#pragma once

#include <string>
#include <vector>

#include "train/tokenizers/bpe.h"
#include "train/tokenizers/sentencepiece_model.h"

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

}  // namespace moh
