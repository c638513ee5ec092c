#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Bias of linear, over N rows of width O whose first elements are `stride` apart.
template <class Backend, class T>
struct LinearKernels {
  /// y[N, O] += b[O].
  static void add_bias(const T* b, T* y, Rows rows, std::int64_t stride);
  /// db[O] = sum over rows of dy[N, O], as the accumulation type.
  static void sum_rows(const T* dy, Acc<T>* db, Rows rows, std::int64_t stride);
};

}  // namespace moh
