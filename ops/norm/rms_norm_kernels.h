#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernels of rms_norm over N rows of width D; outputs are overwritten. x, y, dx, dy [N, D]; w, dw [D]; r
/// [N].
template <class Backend, class T>
struct RmsNormKernels {
  static void forward(const T* x, const T* w, T* y, Acc<T>* r, Rows rows, double eps);
  static void backward(const T* dy, const T* x, const T* w, const Acc<T>* r, T* dx, T* dw, Rows rows);
};

}  // namespace moh
