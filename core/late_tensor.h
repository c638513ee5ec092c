#pragma once

#include "core/tensor.h"

namespace moh {

/// A tensor whose memory is taken when an element is read or written for the first time; contents undefined.
Tensor late_tensor(const Shape& shape, DType dtype, Device device = kCpu);

}  // namespace moh
