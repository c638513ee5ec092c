#pragma once

#include <cstdint>

namespace moh {

/// Elements of a parameter per chunk, the unit of parallel work of the optimiser's kernels.
inline constexpr std::int64_t kOptimizerChunk = 1 << 14;

}  // namespace moh
