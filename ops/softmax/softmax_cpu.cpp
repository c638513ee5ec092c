#include <algorithm>
#include <type_traits>

#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/row_exp.h"
#include "ops/softmax/softmax_kernels.h"

namespace moh {

namespace {

/// y = e^(x - top) of a row, and their sum, as exp_sum_of adds it.
template <class A>
[[gnu::always_inline]] inline double exp_row(const A* x, A* y, std::int64_t width, A top) {
  constexpr std::int64_t kBlock = 1024;
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    Vec<A> part{};
    for_vectors_in<A>(begin, std::min(begin + kBlock, width), [&](auto at) {
      const Vec<A> e = exp_of_negative(at.load(x) - top);
      at.store(y, e);
      part += at.masked(e);
    });
    sum += static_cast<double>(sum_lanes<A>(part));
  }
  return sum;
}

template <class T>
[[gnu::always_inline]] inline void softmax_row(const T* x, T* y, std::int64_t width) {
  using A = Acc<T>;
  if constexpr (std::is_same_v<T, A>) {
    const A share = static_cast<A>(1.0 / exp_row(x, y, width, largest_of(x, width)));
    for_vectors_in<A>(0, width, [=](auto at) { at.store(y, at.load(y) * share); });
  } else {  // an exponential in between would be rounded
    const ExpSum<A> exp_sum = exp_sum_of(x, width);
    const A top = exp_sum.top, share = static_cast<A>(1.0 / exp_sum.sum);
    for_vectors_in<A>(0, width, [=](auto at) { at.store(y, exp_of_negative(at.load(x) - top) * share); });
  }
}

}  // namespace

template <class Backend, class T>
void SoftmaxKernels<Backend, T>::forward(const T* x, T* y, Rows rows) {
  const std::int64_t width = rows.width;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) softmax_row(x + i * width, y + i * width, width);
  });
}

// dx_j = y_j (dy_j - sum_k dy_k y_k).
template <class Backend, class T>
void SoftmaxKernels<Backend, T>::backward(const T* dy, const T* y, T* dx, Rows rows) {
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* yi = y + i * width;
      const T* dyi = dy + i * width;
      T* dxi = dx + i * width;
      A dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t j = 0; j < width; ++j) dot += A(dyi[j]) * A(yi[j]);
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) dxi[j] = A(yi[j]) * (A(dyi[j]) - dot);
    }
  });
}

template struct SoftmaxKernels<cpu::MOH_ISA, float>;
template struct SoftmaxKernels<cpu::MOH_ISA, bfloat16>;
template struct SoftmaxKernels<cpu::MOH_ISA, double>;

}  // namespace moh
