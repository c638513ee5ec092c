#pragma once

#include <cstdint>

namespace moh {

/// Sizes and layout of c[m, n] = op(a)[m, k] op(b)[k, n], row-major; ld is the distance of two stored rows.
struct GemmShape {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc;
};

/// Matrix products in plain loops: float64 always (gradient checks), float32 in builds without oneDNN.
template <class Backend, class T>
struct MatmulKernels {
  static void gemm(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate);
};

}  // namespace moh
