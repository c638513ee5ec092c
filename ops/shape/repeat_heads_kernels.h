#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// x [tokens, first + repeated, d], y [tokens, first + repeated times, d].
struct RepeatedHeads {
  std::int64_t tokens, first, repeated, times, head_dim;
};

/// Kernels of repeat_heads; outputs are overwritten.
template <class Backend, class T>
struct RepeatHeadsKernels {
  static void forward(const T* x, T* y, RepeatedHeads shape);
  static void backward(const T* dy, T* dx, RepeatedHeads shape);
};

}  // namespace moh
