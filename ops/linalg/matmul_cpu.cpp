#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "core/parallel.h"
#include "core/scratch.h"
#include "ops/linalg/matmul_kernels.h"

namespace moh {

template <class Backend, class T>
void MatmulKernels<Backend, T>::gemm(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate) {
  const std::int64_t m = shape.m, n = shape.n, k = shape.k, ldb = shape.ldb, ldc = shape.ldc;
  // op(b) is laid out row by row first, so that the inner loop below always runs along contiguous elements.
  const Scratch scratch(shape.transpose_b ? static_cast<std::size_t>(k * n) * sizeof(T) : 0);
  const T* rows_of_b = b;
  std::int64_t row_stride = ldb;
  if (shape.transpose_b) {
    T* packed = scratch.as<T>();
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t p = 0; p < k; ++p) packed[p * n + j] = b[j * ldb + p];
    }
    rows_of_b = packed;
    row_stride = n;
  }
  const std::int64_t a_row = shape.transpose_a ? 1 : shape.lda, a_column = shape.transpose_a ? shape.lda : 1;
  parallel_for(m, 8, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* ci = c + i * ldc;
      if (!accumulate) {
        for (std::int64_t j = 0; j < n; ++j) ci[j] = T(0);
      }
      for (std::int64_t p = 0; p < k; ++p) {
        const T factor = a[i * a_row + p * a_column];
        const T* bp = rows_of_b + p * row_stride;
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) ci[j] += factor * bp[j];
      }
    }
  });
}

template struct MatmulKernels<cpu::MOH_ISA, float>;
template struct MatmulKernels<cpu::MOH_ISA, double>;

}  // namespace moh
