#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernels of swiglu: y and dy [count, width], x and dx [count, 2 width]; outputs are overwritten.
template <class Backend, class T>
struct SwigluKernels {
  static void forward(const T* x, T* y, Rows rows);
  static void backward(const T* dy, const T* x, T* dx, Rows rows);
};

}  // namespace moh
