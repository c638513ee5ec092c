#pragma once

#include <string>

#include "train/tokenizers/sentencepiece_model.h"

namespace moh {

/// Components of a tokenizer.json with which the library `tokenizers` does what a SentencePiece model says,
/// in JSON; "null" for one that it does not need.

/// The steps of SentencePieceNormalizer: rules; extra spaces, at the beginning, at the end, and within; the
/// space before a text; and spaces as U+2581.
std::string normalizer_json(const SentencePieceModel& model);

/// In a byte-pair encoding user-defined pieces are words, the longest that begins at a place. No text becomes
/// the token of a byte, which is called <0x41>: the text is cut there.
std::string pre_tokenizer_json(const SentencePieceModel& model);

std::string decoder_json(const SentencePieceModel& model);

}  // namespace moh
