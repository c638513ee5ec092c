#include <cmath>
#include <type_traits>

#include "ops/cpu/reduce.h"
#include "ops/norm/rms_norm_kernels.h"

namespace moh {

template <class Backend, class T>
void RmsNormKernels<Backend, T>::forward(const T* x, const NormAddend<T>& add, const T* w, T* y, Acc<T>* r,
                                         Rows rows, double eps) {
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* xi = x + i * width;
      T* yi = y + i * width;
      if (add.addend != nullptr) {
        const T* ai = add.addend + i * width;
        T* sum = add.sum + i * width;
#pragma omp simd
        for (std::int64_t j = 0; j < width; ++j) sum[j] = A(xi[j]) + A(ai[j]);
        xi = sum;
      }
      A squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t j = 0; j < width; ++j) squares += A(xi[j]) * A(xi[j]);
      const A ri = A(1) / std::sqrt(squares / A(width) + A(eps));
      r[i] = ri;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) yi[j] = A(xi[j]) * ri * A(w[j]);
    }
  });
}

// With s = sum_j dy_j w_j x_j of a row: dx_j = r (dy_j w_j - x_j r^2 s / D) + dsum_j, dw_j = sum over rows of
// dy_j x_j r.
template <class Backend, class T>
void RmsNormKernels<Backend, T>::backward(const T* dy, const T* dsum, const T* x, const T* w, const Acc<T>* r,
                                          T* dx, Acc<T>* dw, Rows rows) {
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  const auto backward_row = [=]<bool kSums>(std::bool_constant<kSums>, std::int64_t i, A* dw_partial) {
    const T* xi = x + i * width;
    const T* dyi = dy + i * width;
    T* dxi = dx + i * width;
    const A ri = r[i];
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (std::int64_t j = 0; j < width; ++j) {
      s += A(dyi[j]) * A(w[j]) * A(xi[j]);
      if constexpr (kSums) dw_partial[j] += A(dyi[j]) * A(xi[j]) * ri;
    }
    const A shrink = ri * ri * s / A(width);
    if (dsum == nullptr) {
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) dxi[j] = ri * (A(dyi[j]) * A(w[j]) - A(xi[j]) * shrink);
    } else {
      const T* dsumi = dsum + i * width;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j)
        dxi[j] = ri * (A(dyi[j]) * A(w[j]) - A(xi[j]) * shrink) + A(dsumi[j]);
    }
  };
  if (dw != nullptr) {
    return sum_over_rows<A>(rows.count, width, dw, [=](std::int64_t i, A* dw_partial) {
      backward_row(std::true_type(), i, dw_partial);
    });
  }
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) backward_row(std::false_type(), i, nullptr);
  });
}

template struct RmsNormKernels<cpu::MOH_ISA, float>;
template struct RmsNormKernels<cpu::MOH_ISA, bfloat16>;
template struct RmsNormKernels<cpu::MOH_ISA, double>;

}  // namespace moh
