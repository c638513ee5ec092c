#pragma once

#include "core/dtype.h"
#include "ops/gradient_destination.h"
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

/// The gradients of an affine map, [groups, D] each with affine.stride elements between groups: both, or
/// neither.
template <class T>
struct NormSums {
  GradientDestination<T> bias, weight;  ///< a CPU wants the weight's right behind the bias'
};

/// Kernels of layer_norm over N rows of width D; outputs are overwritten. x, y, dx, dy [N, D]; mean, r [N];
/// with `adds`, on a GPU only, dx is not overwritten but added to.
template <class Backend, class T>
struct LayerNormKernels {
  static void forward(const T* x, const NormAffine<T>& affine, T* y, Acc<T>* mean, Acc<T>* r, Rows rows,
                      double eps);
  static void backward(const T* dy, const T* x, const NormAffine<T>& affine, const Acc<T>* mean,
                       const Acc<T>* r, T* dx, bool adds, const NormSums<T>& sums, Rows rows);
};

}  // namespace moh
