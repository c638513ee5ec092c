#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// y = a + b over `count` elements.
template <class Backend, class T>
struct AddKernels {
  static void forward(const T* a, const T* b, T* y, std::int64_t count);
};

}  // namespace moh
