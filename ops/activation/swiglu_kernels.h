#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Kernels of swiglu over `count` elements; outputs are overwritten.
template <class Backend, class T>
struct SwigluKernels {
  static void forward(const T* gate, const T* up, T* y, std::int64_t count);
  static void backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, std::int64_t count);
};

}  // namespace moh
