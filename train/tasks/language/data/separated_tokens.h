#pragma once

#include <cstdint>
#include <vector>

#include "train/tasks/language/data/token_source.h"

namespace moh {

/// The ids of `source` with `separator` put in before each of the places `at`, which ascend and lie within
/// it. Memory: 8 bytes a place; random access takes the logarithm of their number.
TokenSourcePtr separate_tokens(TokenSourcePtr source, std::vector<std::int64_t> at, TokenId separator);

}  // namespace moh
