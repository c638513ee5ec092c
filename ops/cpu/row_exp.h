#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The two reductions of a softmax over one row.

#include <cstdint>
#include <limits>

#include "core/dtype.h"
#include "ops/cpu/math.h"

namespace moh {
namespace {

/// The largest element, ignoring NaNs; -inf for an empty row.
template <class T>
[[maybe_unused]] [[gnu::always_inline]] inline Acc<T> largest_of(const T* x, std::int64_t width) {
  using A = Acc<T>;
  A top = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : top)
  for (std::int64_t j = 0; j < width; ++j) top = A(x[j]) > top ? A(x[j]) : top;
  return top;
}

/// The sum of e^(x_j - top), over blocks whose sums are added in double: exact enough for
/// long rows (vocabularies).
template <class T>
[[maybe_unused]] [[gnu::always_inline]] inline double exp_sum_of(const T* x, std::int64_t width, Acc<T> top) {
  using A = Acc<T>;
  constexpr std::int64_t kBlock = 1024;
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    const std::int64_t end = begin + kBlock < width ? begin + kBlock : width;
    A part = 0;
#pragma omp simd reduction(+ : part)
    for (std::int64_t j = begin; j < end; ++j) part += exp_of_negative(A(x[j]) - top);
    sum += static_cast<double>(part);
  }
  return sum;
}

}  // namespace
}  // namespace moh
