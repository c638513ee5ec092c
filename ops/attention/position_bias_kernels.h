#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// table, dtable [rows, heads]; y, dy [heads, pairs]; index [pairs].
struct PositionBiasShape {
  std::int64_t rows, heads, pairs;
};

/// Kernels of position_bias; outputs are overwritten.
template <class Backend, class T>
struct PositionBiasKernels {
  static void forward(const T* table, const std::int64_t* index, T* y, PositionBiasShape shape);
  static void backward(const T* dy, const std::int64_t* index, Acc<T>* dtable, PositionBiasShape shape);
};

}  // namespace moh
