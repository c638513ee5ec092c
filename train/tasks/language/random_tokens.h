#pragma once

#include <cstdint>

#include "train/tasks/language/language_data.h"

namespace moh {

/// How many random tokens there are.
struct RandomSizes {
  std::int64_t train = std::int64_t{1} << 30;
  std::int64_t validation = 0;
};

/// Data without a file: ids drawn uniformly from the model's whole vocabulary, each a function of the seed
/// and its index. For measurements: whatever the tokens are, a step costs the same.
std::shared_ptr<const LanguageData> random_language_data(std::int64_t vocab_size, std::uint64_t seed,
                                                         const RandomSizes& sizes = {});

}  // namespace moh
