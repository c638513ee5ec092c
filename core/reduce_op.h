#pragma once

#include <cstdint>

namespace moh {

/// How a collective combines the values of the processes.
enum class ReduceOp : std::uint8_t { kSum, kMax };

}  // namespace moh
