#include "ops/linalg/gemm_cuda.h"

#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/stream.h"

// In place of cuBLASLt: plain loops.

namespace moh {

namespace {

struct Matrix {
  const void* data;
  DType dtype;
  std::int64_t stride;
  bool transposed;

  float at(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = transposed ? column * stride + row : row * stride + column;
    if (dtype == DType::kFloat32) return static_cast<const float*>(data)[i];
    return static_cast<const bfloat16*>(data)[i];
  }
};

void multiply(const CudaGemm& g, const void* a, const void* b, void* c) {
  const sim::DeviceMemory::Access access;
  const Matrix left{a, g.operand_dtype, g.lda, g.transpose_a},
      right{b, g.operand_dtype, g.ldb, g.transpose_b};
  const Matrix before{c, g.result_dtype, g.ldc, false};
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      float sum = g.accumulate ? before.at(i, j) : 0.0F;
      for (std::int64_t k = 0; k < g.k; ++k) sum += left.at(i, k) * right.at(k, j);
      if (g.result_dtype == DType::kFloat32) {
        static_cast<float*>(c)[i * g.ldc + j] = sum;
      } else {
        static_cast<bfloat16*>(c)[i * g.ldc + j] = sum;
      }
    }
  }
}

}  // namespace

void cuda_gemm(const CudaGemm& gemm, const void* a, const void* b, void* c) {
  sim::Stream::instance().submit([=] { multiply(gemm, a, b, c); });
}

}  // namespace moh
