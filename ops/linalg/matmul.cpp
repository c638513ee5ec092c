#include "ops/linalg/matmul.h"

#include <algorithm>
#include <string>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "ops/linalg/matmul_kernels.h"

#ifdef MOH_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

namespace moh {

namespace {

GemmShape gemm_shape(const Tensor& c, const Operand& a, const Operand& b) {
  for (const Tensor* matrix : {&c, &a.matrix, &b.matrix}) {
    if (matrix->rank() != 2)
      throw ShapeError(error_message("matmul", "operand", "a matrix", describe(*matrix)));
  }
  const std::int64_t m = a.matrix.dim(a.transposed ? 1 : 0), k = a.matrix.dim(a.transposed ? 0 : 1);
  const std::int64_t k_of_b = b.matrix.dim(b.transposed ? 1 : 0), n = b.matrix.dim(b.transposed ? 0 : 1);
  if (k != k_of_b || c.shape() != Shape{m, n}) {
    throw ShapeError("matmul: expected [m, k] [k, n] -> [m, n], found [" + std::to_string(m) + ", " +
                     std::to_string(k) + "] [" + std::to_string(k_of_b) + ", " + std::to_string(n) + "] -> " +
                     to_string(c.shape()));
  }
  return {m, n, k, a.transposed, b.transposed, a.matrix.dim(1), b.matrix.dim(1), n};
}

template <class T>
void plain_gemm(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate) {
  visit_cpu_isa([&]<class Backend>() { MatmulKernels<Backend, T>::gemm(shape, a, b, c, accumulate); });
}

#ifdef MOH_HAVE_DNNL

/// Blocks of c that are handed to threads, as functions of the sizes alone: about 256 x 1024, smaller where
/// that would leave fewer than eight.
struct Blocks {
  std::int64_t rows, columns;
};
Blocks blocks_for(const GemmShape& s) {
  Blocks blocks{std::min<std::int64_t>(s.m, 256), std::min<std::int64_t>(s.n, 1024)};
  const auto count = [&] { return num_chunks(s.m, blocks.rows) * num_chunks(s.n, blocks.columns); };
  while (count() < 8 && (blocks.rows > 64 || blocks.columns > 256)) {
    if (blocks.rows > 64)
      blocks.rows = (blocks.rows + 1) / 2;
    else
      blocks.columns = (blocks.columns + 1) / 2;
  }
  return blocks;
}

void check_dnnl(dnnl_status_t status) {
  if (status == dnnl_success) return;
  throw InternalError("matmul: oneDNN refused a matrix product (status " + std::to_string(status) + ")");
}

void float_gemm(const GemmShape& s, const float* a, const float* b, float* c, bool accumulate) {
  const float beta = accumulate ? 1.0F : 0.0F;
  const char letter_a = s.transpose_a ? 'T' : 'N', letter_b = s.transpose_b ? 'T' : 'N';
  const Blocks blocks = blocks_for(s);
  const std::int64_t columns = num_chunks(s.n, blocks.columns);
  const auto run_block = [&](std::int64_t row, std::int64_t column) {
    check_dnnl(dnnl_sgemm(
        letter_a, letter_b, std::min(blocks.rows, s.m - row), std::min(blocks.columns, s.n - column), s.k,
        1.0F, a + (s.transpose_a ? row : row * s.lda), s.lda, b + (s.transpose_b ? column * s.ldb : column),
        s.ldb, beta, c + row * s.ldc + column, s.ldc));
  };
  const SerialScope one_thread_per_block;
  parallel_for(num_chunks(s.m, blocks.rows) * columns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      run_block(i / columns * blocks.rows, i % columns * blocks.columns);
  });
}

#else

void float_gemm(const GemmShape& s, const float* a, const float* b, float* c, bool accumulate) {
  plain_gemm(s, a, b, c, accumulate);
}

#endif

void gemm_in_float32(const GemmShape& shape, const Tensor& c, const Tensor& a, const Tensor& b,
                     bool accumulate) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const Tensor wide_a = a.to(DType::kFloat32), wide_b = b.to(DType::kFloat32);
  if (c.dtype() == DType::kFloat32) {
    return float_gemm(shape, wide_a.data<float>(), wide_b.data<float>(), c.data<float>(), accumulate);
  }
  const Tensor wide_c = accumulate ? c.to(DType::kFloat32) : empty(c.shape(), DType::kFloat32);
  float_gemm(shape, wide_a.data<float>(), wide_b.data<float>(), wide_c.data<float>(), accumulate);
  c.copy_from(wide_c);
}

}  // namespace

void matmul_into(const Tensor& c, const Operand& a, const Operand& b, bool accumulate) {
  const GemmShape shape = gemm_shape(c, a, b);
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.k == 0) {
    if (!accumulate) c.fill(0);
    return;
  }
  if (c.dtype() == DType::kFloat64) {
    plain_gemm(shape, a.matrix.data<double>(), b.matrix.data<double>(), c.data<double>(), accumulate);
  } else {
    gemm_in_float32(shape, c, a.matrix, b.matrix, accumulate);
  }
}

Tensor matmul(const Operand& a, const Operand& b, DType dtype) {
  const std::int64_t m = a.matrix.dim(a.transposed ? 1 : 0), n = b.matrix.dim(b.transposed ? 0 : 1);
  Tensor c = empty({m, n}, dtype, a.matrix.device());
  matmul_into(c, a, b);
  return c;
}

}  // namespace moh
