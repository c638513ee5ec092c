#pragma once

#include "core/dtype.h"

namespace moh {

/// As many scalars as a launch takes.
template <class T>
struct Scalars {
  static constexpr int kMost = 64;
  const T* at[kMost];  // NOLINT: device code reads it
  int count;
};

/// *sum = factor (*before + the scalars, in their order). `before` may be null, or `sum`.
template <class Backend, class T>
struct MeanOfKernels {
  static void add_up(const Scalars<T>& scalars, const T* before, Acc<T> factor, T* sum);
};

}  // namespace moh
