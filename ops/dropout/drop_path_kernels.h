#pragma once

#include "core/dtype.h"
#include "ops/dropout/dropout_mask.h"
#include "ops/op.h"

namespace moh {

/// y = x, sample b times factor b of the mask; the backward pass is the same on the gradient. x, y: `count`
/// samples of `width` elements.
template <class Backend, class T>
struct DropPathKernels {
  static void apply(const T* x, T* y, Rows samples, DropoutMask mask);
};

}  // namespace moh
