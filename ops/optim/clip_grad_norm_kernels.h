#pragma once

#include <cstdint>

namespace moh {

/// A range of elements of one gradient: the unit of parallel work.
template <class T>
struct GradChunk {
  const T* grad = nullptr;
  std::int64_t count = 0;
};

/// min(1, max_norm / (norm + 1e-6)), as clip_factor. constexpr, so that device code may call it.
constexpr double clip_scale(double norm, double max_norm) {
  const double scale = max_norm / (norm + 1e-6);
  return scale < 1.0 ? scale : 1.0;
}

/// All pointers are to memory of the back end: sums[i] = the sum of the squares of chunk i. If `grad` is not
/// null, the chunks are those of one gradient, which is this one in place of their own.
template <class Backend, class T>
struct GradNormKernels {
  static void sum_squares(const GradChunk<T>* chunks, std::int64_t num_chunks, double* sums,
                          const T* grad = nullptr);
};

}  // namespace moh
