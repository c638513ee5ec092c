#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// The tensor that is added to x before the norm, and the sum; null: none.
template <class T>
struct NormAddend {
  const T* addend = nullptr;
  T* sum = nullptr;
};

/// Kernels of rms_norm and add_rms_norm over N rows of width D; outputs are overwritten. x, y, dx, dy, dsum
/// [N, D]; w [D]; dw [D], not rounded to T; r [N]. In the backward pass x is the sum; dsum, which dx gets
/// too, may be null, and so may dw, which is not computed then.
template <class Backend, class T>
struct RmsNormKernels {
  static void forward(const T* x, const NormAddend<T>& add, const T* w, T* y, Acc<T>* r, Rows rows,
                      double eps);
  static void backward(const T* dy, const T* dsum, const T* x, const T* w, const Acc<T>* r, T* dx, Acc<T>* dw,
                       Rows rows);
};

}  // namespace moh
