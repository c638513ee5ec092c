#pragma once

#include <cstdint>

namespace moh {

/// A run of elements of one gradient, small enough to be one piece of parallel work.
template <class T>
struct GradChunk {
  const T* grad = nullptr;
  std::int64_t count = 0;
};

/// sums[i] = the sum of the squares of chunk i.
template <class Backend, class T>
struct GradNormKernels {
  static void sum_squares(const GradChunk<T>* chunks, std::int64_t num_chunks, double* sums);
};

}  // namespace moh
