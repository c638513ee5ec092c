#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernels of softmax over N rows of width D; outputs are overwritten.
template <class Backend, class T>
struct SoftmaxKernels {
  static void forward(const T* x, T* y, Rows rows);
  static void backward(const T* dy, const T* y, T* dx, Rows rows);
};

}  // namespace moh
