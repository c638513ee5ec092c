#pragma once

#include <cstdint>
#include <span>

#include "core/function_ref.h"
#include "train/families/translation/data/parallel_text.h"
#include "train/families/translation/translation_run.h"

namespace moh {

/// The pairs that a run keeps, by their numbers of tokens.
struct PairFilter {
  std::int64_t max_length = 0;  ///< tokens of either side, the end of the sentence included
  double max_ratio = 0;         ///< tokens of the longer side per token of the shorter, without ends; 0: any
};

/// A pair with its tokens, without those around the sentences.
struct TokenisedPair {
  const TextPair& text;
  std::span<const TokenId> source, target;
};

/// Encodes the pairs of a reader with all threads and passes on those that the filter keeps, in order; the
/// others are counted in `dropped`, as "longer than N tokens" and "length ratio above R". Memory: that of
/// 4096 pairs. Throws DataError as the reader does, and for text that the tokenizers cannot express.
void tokenize_pairs(ParallelReader& reader, const LanguageTokenizers& tokenizers, const PairFilter& filter,
                    DroppedPairs& dropped, FunctionRef<void(const TokenisedPair&)> sink);

}  // namespace moh
