#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/row_exp.h"
#include "ops/softmax/softmax_kernels.h"

namespace moh {

template <class Backend, class T>
void SoftmaxKernels<Backend, T>::forward(const T* x, T* y, Rows rows) {
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* xi = x + i * width;
      T* yi = y + i * width;
      const A top = largest_of(xi, width);
      const A share = static_cast<A>(1.0 / exp_sum_of(xi, width, top));
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) yi[j] = exp_of_negative(A(xi[j]) - top) * share;
    }
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
