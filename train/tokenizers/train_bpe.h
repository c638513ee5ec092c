#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// A word of a text, in bytes, and how often it occurs.
struct WordCount {
  std::string bytes;
  std::int64_t count = 0;

  bool operator==(const WordCount&) const = default;
};

struct BpeTrainerOptions {
  std::int64_t vocab_size = 32000;        ///< tokens in total: special ones, the 256 bytes, and merges
  std::int64_t min_frequency = 2;         ///< pairs that occur less often are not merged
  std::vector<std::string> special = {};  ///< they have the first ids
};

/// A byte-level byte-pair encoding that was learned.
struct LearnedBpe {
  std::vector<std::string> tokens;  ///< by id, in bytes; special tokens as given
  std::vector<std::pair<TokenId, TokenId>> merges;
};

/// Learns a byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909) from the words of a text: the pair of
/// neighbouring tokens that occurs most often becomes a token, again and again. Of pairs that occur equally
/// often the one with the smaller left id is first, then that with the smaller right id, as in the trainer of
/// the library `tokenizers`. In "aaa" the pair (a, a) counts twice. The result depends on the words and their
/// counts alone, not on their order. `progress` hears of the number of tokens. Time: as the words that each
/// merge changes; memory: 8 bytes for each byte of the words, and their pairs. Throws ValueError for a
/// vocabulary that is smaller than the bytes and special tokens.
LearnedBpe train_bpe(std::span<const WordCount> words, const BpeTrainerOptions& options,
                     FunctionRef<void(std::int64_t tokens)> progress);

}  // namespace moh
