#pragma once

#include "core/dtype.h"
#include "ops/dropout/dropout_mask.h"
#include "ops/op.h"

namespace moh {

/// y = x, sample b times factor b of the mask, plus `addend` unless it is null; the backward pass is the
/// first on the gradient. x, addend, y: `count` samples of `width` elements. On a CPU the product is rounded
/// to T before the addition.
template <class Backend, class T>
struct DropPathKernels {
  static void apply(const T* x, const T* addend, T* y, Rows samples, DropoutMask mask);
};

}  // namespace moh
