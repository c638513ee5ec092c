#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// The affine map after the normalisation: y = n (base + weight) + bias. The rows form `groups` groups of
/// equal length; group g uses row g of weight and of bias, [groups, D] with row stride `stride` elements.
template <class T>
struct NormAffine {
  const T* weight = nullptr;  ///< null: zeros
  const T* bias = nullptr;    ///< null: zeros
  double base = 0;
  std::int64_t groups = 1;
  std::int64_t stride = 0;
};

/// Kernels of layer_norm over N rows of width D; outputs are overwritten. x, y, dx, dy [N, D]; mean, r [N];
/// dparameters [groups, 2, D] with affine.stride elements between groups: the gradient of the bias, then that
/// of the weight, not rounded to T; null: neither is computed.
template <class Backend, class T>
struct LayerNormKernels {
  static void forward(const T* x, const NormAffine<T>& affine, T* y, Acc<T>* mean, Acc<T>* r, Rows rows,
                      double eps);
  static void backward(const T* dy, const T* x, const NormAffine<T>& affine, const Acc<T>* mean,
                       const Acc<T>* r, T* dx, Acc<T>* dparameters, Rows rows);
};

}  // namespace moh
