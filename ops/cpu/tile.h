#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// A register tile is kTileRows x kTileVecs vectors: 24 accumulators of 32 registers, 12 of 16. Enough
/// independent sums to keep two FMA units busy, and few enough loads per sum not to be load-bound. Measured
/// at the processor's peak for operands in L1 and L2.
constexpr int kTileRows = 6;
constexpr int kTileVecs = kVectorRegisters >= 32 ? 4 : 2;

/// Bytes of a cache line.
constexpr int kCacheLine = 64;

/// Prefetch distance in rows of the right operand: the first tile that reads them finds them in neither L1
/// nor L2.
constexpr std::ptrdiff_t kTileAhead = 16;

/// `rows` rounded up to whole tiles.
[[maybe_unused]] inline std::int64_t round_up_to_tile(std::int64_t rows) {
  return (rows + kTileRows - 1) / kTileRows * kTileRows;
}

/// The left operand of a matrix multiplication: element (i, k) is data[i * row + k * depth], so that
/// transposing it costs nothing.
template <class F>
struct LeftFactor {
  const F* data;
  std::ptrdiff_t row, depth;

  F at(int i) const { return data[i * row]; }  // of the current k
  void next() { data += depth; }
};
/// A left operand whose tiles are packed: the kTileRows elements of a k lie together.
template <class F>
struct PackedLeft {
  const F* data;

  F at(int i) const { return data[i]; }
  void next() { data += kTileRows; }
};
/// A left operand with a pointer per row.
template <class F>
struct GatheredLeft {
  const F* rows[kTileRows];
  std::ptrdiff_t k = 0;

  F at(int i) const { return rows[i][k]; }
  void next() { ++k; }
};

/// The result of a matrix multiplication: a matrix with a row stride of `row` elements.
template <class F>
struct OutMatrix {
  F* data;
  std::ptrdiff_t row;

  F* at(int i) const { return data + i * row; }
  void skip(std::ptrdiff_t columns) { data += columns; }
};
/// A result with a pointer per row; rows must not overlap.
template <class F>
struct ScatteredOut {
  F* rows[kTileRows];
  std::ptrdiff_t column = 0;

  F* at(int i) const { return rows[i] + column; }
  void skip(std::ptrdiff_t columns) { column += columns; }
};

/// c[kRows, kVecs vectors] (+)= a[kRows, depth] * b[depth, kVecs vectors], with depth and the row stride
/// b_row of b in factors F. Terms are added in the order of k, whatever the tile; their sum is added to c,
/// which is prefetched meanwhile.
template <class F, int kRows, int kVecs, bool kAccumulate, class Left, class Out>
void multiply_tile(Left a, const F* b, std::ptrdiff_t b_row, std::int64_t depth, Out c) {
  constexpr int kN = kLanes<F>;
  using Sum = SumOf<F>;
  Vec<Sum> sum[kRows][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      sum[i][j] = Vec<Sum>{};
      __builtin_prefetch(c.at(i) + j * kN, /*for writing*/ 1);
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec<F> b_k[kVecs];
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      b_k[j] = load(b + j * kN);
      // Once per cache line: with narrow vectors, prefetches would take the place of loads.
      if (j * kVectorBytes % kCacheLine == 0) __builtin_prefetch(b + kTileAhead * b_row + j * kN);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec<F> a_ik = splat<F>(a.at(i));
#pragma GCC unroll 4
      for (int j = 0; j < kVecs; ++j) sum[i][j] = multiply_add<F>(a_ik, b_k[j], sum[i][j]);
    }
    a.next();
    b += b_row;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      Sum* const to = c.at(i) + j * kN;
      store(to, kAccumulate ? load(to) + sum[i][j] : sum[i][j]);
    }
  }
}

/// multiply_tile() for any number of vectors, split into tiles of nearly equal width.
template <class F, int kRows, bool kAccumulate, class Left = LeftFactor<F>, class Out = OutMatrix<SumOf<F>>>
void multiply_rows(std::type_identity_t<Left> a, const F* b, std::ptrdiff_t b_row, std::int64_t depth,
                   std::type_identity_t<Out> c, int vecs) {
  while (vecs > 0) {
    const int tiles = (vecs + kTileVecs - 1) / kTileVecs;
    const int width = (vecs + tiles - 1) / tiles;
    if constexpr (kTileVecs >= 4) {
      if (width == 4) multiply_tile<F, kRows, 4, kAccumulate>(a, b, b_row, depth, c);
      if (width == 3) multiply_tile<F, kRows, 3, kAccumulate>(a, b, b_row, depth, c);
    }
    if (width == 2) multiply_tile<F, kRows, 2, kAccumulate>(a, b, b_row, depth, c);
    if (width == 1) multiply_tile<F, kRows, 1, kAccumulate>(a, b, b_row, depth, c);
    b += width * kLanes<F>;
    c.skip(width * kLanes<F>);
    vecs -= width;
  }
}

}  // namespace
}  // namespace moh
