#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// x, y, dy, dx [N, H, d]; scales [H].
struct ScaledHeads {
  std::int64_t tokens, heads, head_dim;
};

/// Kernels of scale_heads; outputs are overwritten. The gradient of the scales is in the accumulation dtype.
template <class Backend, class T>
struct ScaleHeadsKernels {
  static void forward(const T* x, const T* scales, T* y, ScaledHeads shape);
  static void backward(const T* dy, const T* x, const T* scales, T* dx, Acc<T>* dscales, ScaledHeads shape);
};

}  // namespace moh
