#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Kernels of silu over `count` elements; outputs are overwritten.
template <class Backend, class T>
struct SiluKernels {
  static void forward(const T* x, T* y, std::int64_t count);
  static void backward(const T* dy, const T* x, T* dx, std::int64_t count);
};

}  // namespace moh
