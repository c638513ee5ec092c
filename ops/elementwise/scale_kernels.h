#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// y = factor * x over `count` elements.
template <class Backend, class T>
struct ScaleKernels {
  static void forward(const T* x, T* y, std::int64_t count, Acc<T> factor);
};

}  // namespace moh
