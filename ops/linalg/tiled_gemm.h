#pragma once

#include <cstddef>

#include "ops/linalg/matmul_kernels.h"

namespace moh {

/// c = op(a) op(b) on the CPU in our own register tiles, by all threads: of float or double, or of bfloat16
/// into float or bfloat16, with sums in float. The bits do not depend on the number of threads.
template <class T, class C>
void tiled_gemm(const GemmShape& shape, const T* a, const T* b, const GemmResult<C>& c);

/// Upper bound for its bytes of scratch, with the current number of threads.
template <class T, class C>
std::size_t tiled_gemm_scratch_bytes(const GemmShape& shape);

/// Elements from the operands of one matrix multiplication of a batch to those of the next.
struct GemmSteps {
  std::int64_t a, b, c;
};
/// `count` matrix multiplications of one shape.
struct GemmBatch {
  std::int64_t count;
  GemmSteps steps;
};
/// tiled_gemm for each of a batch, which all threads share: for multiplications that are too small to be
/// divided among them.
template <class T>
void tiled_gemm_batch(const GemmShape& shape, const GemmBatch& batch, const T* a, const T* b, T* c,
                      bool accumulate);

/// Bytes of scratch of tiled_gemm_batch() for float, with the current number of threads.
std::size_t tiled_gemm_batch_scratch_bytes(const GemmShape& shape, const GemmBatch& batch);

}  // namespace moh
