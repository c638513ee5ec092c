#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/dropout/dropout_mask.h"

namespace moh {

/// y = x times the mask over `count` elements; the backward pass is the same on the gradient.
template <class Backend, class T>
struct DropoutKernels {
  static void apply(const T* x, T* y, std::int64_t count, DropoutMask mask);
};

}  // namespace moh
