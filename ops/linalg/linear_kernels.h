#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Bias of linear, over N rows of width O.
template <class Backend, class T>
struct LinearKernels {
  /// y[N, O] += b[O]; Y is the dtype of y.
  template <class Y>
  static void add_bias(const T* b, Y* y, Rows rows);
  /// db[O] = sum over rows of dy[N, O], as the accumulation type.
  static void sum_rows(const T* dy, Acc<T>* db, Rows rows);
};

}  // namespace moh
