#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Bias of linear, over N rows of width O with a row stride of `stride` elements.
template <class Backend, class T>
struct LinearKernels {
  /// y[N, O] += b[O].
  static void add_bias(const T* b, T* y, Rows rows, std::int64_t stride);
  /// db[O] = sum over rows of dy[N, O], in the accumulation dtype.
  static void sum_rows(const T* dy, Acc<T>* db, Rows rows, std::int64_t stride);
};

}  // namespace moh
