#pragma once

#include <cstdint>

#include "train/tasks/language_model.h"

namespace moh {

/// Training data without a file: 2^30 ids, drawn uniformly from the model's whole vocabulary, each a function
/// of the seed and its place. Nothing is held out. For measurements: whatever the tokens are, a step costs
/// the same.
LanguageData random_language_data(std::int64_t vocab_size, std::uint64_t seed);

}  // namespace moh
