#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/token_id.h"

namespace moh {

/// The meaning of a piece of a SentencePiece model, by its number in the file.
enum class PieceType {
  kNormal = 1,
  kUnknown = 2,      ///< what has no other token; a model has one
  kControl = 3,      ///< <s>, </s>: never found in a text
  kUserDefined = 4,  ///< always one token, wherever it is in a text
  kUnused = 5,       ///< merged, and taken apart again
  kByte = 6,         ///< <0x00> ... <0xFF>
};

/// The parts of a SentencePiece model (sentencepiece_model.proto of github.com/google/sentencepiece) that
/// determine ids and texts.
struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };

  std::vector<Piece> pieces;  ///< by id; texts differ and are not empty
  bool is_unigram = false;    ///< otherwise a byte-pair encoding
  bool byte_fallback = false;
  TokenId unknown = 0;
  std::optional<TokenId> begin, end;  ///< control pieces by their names
  std::string unknown_text;           ///< what `unknown` is decoded to

  // The normaliser.
  std::string rules;  ///< precompiled character map; "": none
  bool adds_prefix = true, removes_extra_spaces = true, escapes_spaces = true;
};

/// Whether bytes may be a SentencePiece model: they begin with a field that such a file begins with.
bool looks_like_sentencepiece(std::string_view first_bytes);

/// Parses a model. Throws DataError, naming `where`, for one that is damaged, and for what is not supported
/// (models of words and of characters, white space as a suffix, rules for decoding), by name.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& where);

}  // namespace moh
