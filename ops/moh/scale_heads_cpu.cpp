#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/moh/scale_heads_kernels.h"

namespace moh {

template <class Backend, class T>
void ScaleHeadsKernels<Backend, T>::forward(const T* x, const T* scales, T* y, ScaledHeads shape) {
  using A = Acc<T>;
  const std::int64_t rows = shape.tokens * shape.heads, d = shape.head_dim;
  parallel_for(rows, row_grain(rows, d), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const A scale = scales[i % shape.heads];
#pragma omp simd
      for (std::int64_t j = 0; j < d; ++j) y[i * d + j] = scale * A(x[i * d + j]);
    }
  });
}

template <class Backend, class T>
void ScaleHeadsKernels<Backend, T>::backward(const T* dy, const T* x, const T* scales, T* dx, Acc<T>* dscales,
                                             ScaledHeads shape) {
  using A = Acc<T>;
  const std::int64_t heads = shape.heads, d = shape.head_dim;
  sum_over_rows<A>(shape.tokens, heads, dscales, [=](std::int64_t t, A* sums) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t first = (t * heads + h) * d;
      const A scale = scales[h];
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < d; ++j) {
        sum += A(dy[first + j]) * A(x[first + j]);
        dx[first + j] = scale * A(dy[first + j]);
      }
      sums[h] += sum;
    }
  });
}

template struct ScaleHeadsKernels<cpu::MOH_ISA, float>;
template struct ScaleHeadsKernels<cpu::MOH_ISA, bfloat16>;
template struct ScaleHeadsKernels<cpu::MOH_ISA, double>;

}  // namespace moh
