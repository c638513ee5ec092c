#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Parts of rows of `width` elements, in succession.
template <class T>
struct RowParts {
  static constexpr int kMost = 4;

  std::int64_t rows = 0, width = 0;
  int count = 0;
  T* data[kMost] = {};  ///< [rows, its width] each, or null
  std::int64_t begin[kMost] = {};

  constexpr std::int64_t end(int part) const { return part + 1 < count ? begin[part + 1] : width; }
};

template <class Backend, class T>
struct SplitKernels {
  /// Overwrites the parts with those of x.
  static void forward(const T* x, const RowParts<T>& parts);
  /// Overwrites dx with the parts, and with zeros for one that is null.
  static void backward(const RowParts<const T>& parts, T* dx);
};

}  // namespace moh
