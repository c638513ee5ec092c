#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernels of layer_norm over N rows of width D; outputs are overwritten. x, y, dx, dy [N, D]; weight, bias
/// [D] or null; mean, r [N]; dparameters [2, D]: the gradient of the weight, then that of the bias.
template <class Backend, class T>
struct LayerNormKernels {
  static void forward(const T* x, const T* weight, const T* bias, T* y, Acc<T>* mean, Acc<T>* r, Rows rows,
                      double eps);
  static void backward(const T* dy, const T* x, const T* weight, const Acc<T>* mean, const Acc<T>* r, T* dx,
                       T* dparameters, Rows rows);
};

}  // namespace moh
