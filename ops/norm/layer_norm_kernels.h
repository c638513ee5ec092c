#pragma once

#include "core/dtype.h"
#include "ops/dropout/dropout_mask.h"
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

/// The residual branch that is added to x before the norm. The rows form `samples` groups of equal length, as
/// those of an affine map do.
template <class T>
struct NormBranch {
  const T* value = nullptr;  ///< [N, D]; null: nothing is added. Read in the backward pass with gates alone
  const T* gates = nullptr;  ///< [samples, D] with row stride `stride`; null: ones
  DropoutMask mask = {};     ///< of the samples; where there are gates, none is dropped
  std::int64_t samples = 1;
  std::int64_t stride = 0;
};

/// Gradients, of which those of weight and bias, [groups, D] with affine.stride elements between groups, are
/// computed both, or neither.
template <class T>
struct LayerNormGradients {
  T* x = nullptr;                       ///< [N, D]; on a GPU it may be dsum
  T* branch = nullptr;                  ///< [N, D]; null: it is that of x
  GradientDestination<T> gates;         ///< [samples, D]
  GradientDestination<T> bias, weight;  ///< a CPU wants the weight's right behind the bias'
};

/// Kernels of layer norms over N rows of width D; outputs are overwritten. x, sum, y, dy, dsum [N, D]; mean,
/// r [N]. In the backward pass x is the sum; dsum, which the gradient of x gets too, may be null.
template <class Backend, class T>
struct LayerNormKernels {
  /// Without a branch, `sum` is not written. It is rounded to T before it is normalised; on a CPU, so is the
  /// product with a mask's factor.
  static void forward(const T* x, const NormBranch<T>& branch, T* sum, const NormAffine<T>& affine, T* y,
                      Acc<T>* mean, Acc<T>* r, Rows rows, double eps);
  /// The gradient of a branch is the product of its factor and the gradient of x as rounded to T.
  static void backward(const T* dy, const T* dsum, const T* x, const NormBranch<T>& branch,
                       const NormAffine<T>& affine, const Acc<T>* mean, const Acc<T>* r,
                       const LayerNormGradients<T>& to, Rows rows);
};

}  // namespace moh
