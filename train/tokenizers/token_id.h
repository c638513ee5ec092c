#pragma once

#include <cstdint>

namespace moh {

/// Number of a token in its vocabulary, 0 ... vocab_size - 1.
using TokenId = std::int32_t;

}  // namespace moh
