#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// x is [batch, positions, heads, 2 * half].
struct RopeSizes {
  std::int64_t batch = 0;
  std::int64_t positions = 0;
  std::int64_t heads = 0;
  std::int64_t half = 0;
};

/// Rotates x by the table's angles times `direction`, which is 1, or -1 for the inverse; y is overwritten.
/// cos, sin [positions, half] begin with the row of the first position.
template <class Backend, class T>
struct RopeKernels {
  static void rotate(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> direction, T* y,
                     RopeSizes sizes);
};

}  // namespace moh
