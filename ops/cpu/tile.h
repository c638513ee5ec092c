#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// A register tile is kTileRows x kTileVecs vectors: 24 accumulators of 32 registers, 12 of 16. Enough
/// independent sums to keep two fused multiply-add units busy, and few enough loads per sum that the loads do
/// not limit. Measured at the peak of the processor for operands in the first two cache levels.
constexpr int kTileRows = 6;
constexpr int kTileVecs = kVectorRegisters >= 32 ? 4 : 2;

/// The left factor of a product: element (i, k) is data[i * row + k * depth], so that a transposed factor
/// costs nothing.
template <class F>
struct LeftFactor {
  const F* data;
  std::ptrdiff_t row, depth;
};

/// c[kRows, kVecs vectors] (+)= a[kRows, depth] * b[depth, kVecs vectors]; b_row and c_row are the distances
/// of the rows in elements. Terms are added in the order of k, whatever the tile.
template <class F, int kRows, int kVecs, bool kAccumulate>
void multiply_tile(LeftFactor<F> a, const F* b, std::ptrdiff_t b_row, std::int64_t depth, F* c,
                   std::ptrdiff_t c_row) {
  constexpr int kN = kLanes<F>;
  Vec<F> sum[kRows][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) sum[i][j] = kAccumulate ? load(c + i * c_row + j * kN) : Vec<F>{};
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec<F> b_k[kVecs];
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) b_k[j] = load(b + j * kN);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec<F> a_ik = splat<F>(a.data[i * a.row]);
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] += a_ik * b_k[j];
    }
    a.data += a.depth;
    b += b_row;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) store(c + i * c_row + j * kN, sum[i][j]);
  }
}

/// The same for any number of vectors, in tiles of nearly equal width.
template <class F, int kRows, bool kAccumulate>
void multiply_rows(LeftFactor<F> a, const F* b, std::ptrdiff_t b_row, std::int64_t depth, F* c,
                   std::ptrdiff_t c_row, int vecs) {
  while (vecs > 0) {
    const int tiles = (vecs + kTileVecs - 1) / kTileVecs;
    const int width = (vecs + tiles - 1) / tiles;
    if constexpr (kTileVecs >= 4) {
      if (width == 4) multiply_tile<F, kRows, 4, kAccumulate>(a, b, b_row, depth, c, c_row);
      if (width == 3) multiply_tile<F, kRows, 3, kAccumulate>(a, b, b_row, depth, c, c_row);
    }
    if (width == 2) multiply_tile<F, kRows, 2, kAccumulate>(a, b, b_row, depth, c, c_row);
    if (width == 1) multiply_tile<F, kRows, 1, kAccumulate>(a, b, b_row, depth, c, c_row);
    b += width * kLanes<F>;
    c += width * kLanes<F>;
    vecs -= width;
  }
}

}  // namespace
}  // namespace moh
