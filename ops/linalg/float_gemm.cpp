#include "ops/linalg/float_gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/parallel.h"

namespace moh {

namespace {

/// Sizes of the blocks of c that threads compute, as functions of the sizes alone: oneDNN's order of
/// summation depends on the sizes of its call. About 1024 x 1024, smaller if that would give fewer
/// than eight blocks.
struct Blocks {
  std::int64_t rows, columns;
};
Blocks blocks_for(const GemmShape& s) {
  Blocks blocks{std::min<std::int64_t>(s.m, 1024), std::min<std::int64_t>(s.n, 1024)};
  const auto count = [&] { return num_chunks(s.m, blocks.rows) * num_chunks(s.n, blocks.columns); };
  constexpr std::int64_t kLeast = 64;
  while (count() < 8 && std::max(blocks.rows, blocks.columns) > kLeast) {
    // Each block packs its part of a and of b, and packing a transposed a takes the longest.
    const bool cut_columns = s.transpose_a ? blocks.columns > kLeast : blocks.columns > blocks.rows;
    std::int64_t& longer = cut_columns ? blocks.columns : blocks.rows;
    longer = (longer + 1) / 2;
  }
  return blocks;
}

void check_dnnl(dnnl_status_t status) {
  if (status == dnnl_success) return;
  throw InternalError("matmul: oneDNN failed in a matrix multiplication (status " + std::to_string(status) +
                      ")");
}

}  // namespace

/// Cases in which our own kernels are faster (docs/benchmarks/cpu.md): forward passes of layers, a b^T, for
/// which oneDNN transposes b again in each block; router logits; and gradients of weights, a^T b, whose
/// operands have long rows: strides of 4 KiB map to the same cache sets, and our kernels prefetch.
bool runs_in_tiles(const GemmShape& s) {
  constexpr std::int64_t kNarrow = 32, kLongRow = 1024;
  if (!s.transpose_a) return s.transpose_b || s.n < kNarrow;
  return std::min(s.m, s.n) < kNarrow || std::max(s.lda, s.ldb) >= kLongRow;
}

void float_gemm(const GemmShape& s, const float* a, const float* b, float* c, bool accumulate) {
  if (runs_in_tiles(s)) return tiled_gemm<float>(s, a, b, c, accumulate);
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

}  // namespace moh
