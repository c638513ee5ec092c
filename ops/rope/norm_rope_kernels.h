#pragma once

#include "ops/rope/rope_kernels.h"

namespace moh {

/// The operands of both passes: x [batch, positions, heads, 2 half], w [2 half], cos and sin [positions,
/// half].
template <class T>
struct NormRopeOperands {
  const T *x, *w;
  const Acc<T>*cos, *sin;
};

/// Outputs are overwritten. y, dy, dx as x; dw as w, not rounded to T; r [batch, positions, heads].
template <class Backend, class T>
struct NormRopeKernels {
  static void forward(const NormRopeOperands<T>& of, T* y, Acc<T>* r, RopeSizes sizes, double eps);
  static void backward(const T* dy, const NormRopeOperands<T>& of, const Acc<T>* r, T* dx, Acc<T>* dw,
                       RopeSizes sizes);
};

}  // namespace moh
