#pragma once

#include "core/tensor.h"

namespace moh {

/// The elements of a tensor; null where there is none, as kernels want an operand that is left out.
template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace moh
