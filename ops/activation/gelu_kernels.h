#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/activation/gelu.h"

namespace moh {

/// Kernels of gelu over `count` elements; outputs are overwritten.
template <class Backend, class T>
struct GeluKernels {
  static void forward(const T* x, T* y, std::int64_t count, GeluForm form);
  static void backward(const T* dy, const T* x, T* dx, std::int64_t count, GeluForm form);
};

}  // namespace moh
