#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Kernels of relu over `count` elements; outputs are overwritten.
template <class Backend, class T>
struct ReluKernels {
  static void forward(const T* x, T* y, std::int64_t count);
  static void backward(const T* dy, const T* y, T* dx, std::int64_t count);
};

}  // namespace moh
