#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The order in which a matrix multiplication reads its operands. A panel of b is packed sliver after sliver:
// the columns of one register tile, contiguous in k, so that they stay in L1 while the rows of a pass by.
// Rows of a are packed tile after tile: in place, rows that are a multiple of 4 KiB apart fall into the same
// sets of L2.

#include "ops/cpu/pack.h"
#include "ops/cpu/tile.h"
#include "ops/linalg/matmul_kernels.h"

namespace moh {
namespace {

static_assert(kGemmTile == kTileRows);

/// Columns of a sliver.
template <class F>
constexpr std::int64_t kSliver = kTileVecs* kLanes<F>;
/// Elements of a cache line.
template <class F>
constexpr std::int64_t kLine = kCacheLine / static_cast<std::int64_t>(sizeof(F));
/// Prefetch distance in rows while packing: hardware prefetchers do not detect strides of a row.
constexpr std::int64_t kAhead = 16;

inline std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Distance of packed tiles in elements. Without the last term many would begin in the same L1 set; a row of
/// the last one is written beyond its end (copy_tiles, pack_tile).
template <class F>
std::int64_t packed_tile(std::int64_t depth) {
  return depth * kTileRows + kLine<F>;
}

/// Distance of elements of k in a packed sliver of `columns` columns: that of its whole vectors.
template <class F>
std::int64_t sliver_row(std::int64_t columns) {
  return round_up_to_lanes<F>(min_of(kSliver<F>, columns));
}

/// Packs columns [column, column + count) of op(b), elements [k, k + depth), into the slivers [depth,
/// sliver_row] of a panel.
template <class F>
void pack_panel(const GemmShape& s, const F* b, std::int64_t column, std::int64_t count, std::int64_t k,
                std::int64_t depth, F* panel) {
  for (std::int64_t c = 0; s.transpose_b && c < count; c += kSliver<F>) {
    pack_transposed<F>(b + (column + c) * s.ldb + k, s.ldb, min_of(kSliver<F>, count - c), depth,
                       panel + c * depth, sliver_row<F>(count - c));
  }
  for (std::int64_t i = 0; !s.transpose_b && i < depth; ++i) {
    const F* from = b + (k + i) * s.ldb + column;
    for (std::int64_t c = 0; c < count; c += kLine<F>) __builtin_prefetch(from + kAhead * s.ldb + c, 0, 2);
    for (std::int64_t c = 0; c < count; c += kSliver<F>) {
      gather_row<F>(from + c, F(1), panel + c * depth + i * sliver_row<F>(count - c),
                    min_of(kSliver<F>, count - c));
    }
  }
}

/// Packs elements [k, k + depth) of rows [row, row + rows) of the transposed a. A row of a tile is copied as
/// kCopied elements if the matrix has them, in one instruction or two: the next row of the tile then
/// overwrites the last of them, or they end after the tile.
template <class F>
void copy_tiles(const GemmShape& s, const F* a, std::int64_t row, std::int64_t rows, std::int64_t k,
                std::int64_t depth, F* packed) {
  constexpr std::int64_t kCopied = 8;
  static_assert(kCopied >= kTileRows && kCopied - kTileRows <= kLine<F>);
  const std::int64_t distance = packed_tile<F>(depth), stride = s.lda;
  const F* from = a + k * stride + row;
  for (std::int64_t i = 0; i < depth; ++i, from += stride, packed += kTileRows) {
    F* to = packed;
    std::int64_t r = 0;
    for (; r + kCopied <= rows; r += kTileRows, to += distance) {
      __builtin_prefetch(from + kAhead * stride + r);
      copy_rows(from + r, to, kCopied);
    }
    for (; r < rows; r += kTileRows, to += distance) copy_rows(from + r, to, min_of(kTileRows, rows - r));
  }
}

/// Packs elements [0, depth) of `rows` rows into a tile; rows that it lacks are those of the first.
template <class F>
void pack_tile(const F* from, std::int64_t row, std::int64_t rows, std::int64_t depth, F* to) {
  constexpr int kN = kLanes<F>;
  constexpr int kLastSquare = (kTileRows - 1) / kN * kN;
  static_assert(kLastSquare + kN - kTileRows <= kLine<F>);
  const F* rows_of_tile[kLastSquare + kN];
  for (int r = 0; r < kLastSquare + kN; ++r)
    rows_of_tile[r] = from + (r < rows && r < kTileRows ? r * row : 0);
  std::int64_t k = 0;
  for (; k + kN <= depth; k += kN) {
    // The last rows first: what a square writes beyond kTileRows, the next ones overwrite.
    for (int first = kLastSquare; first >= 0; first -= kN) {
      Vec<F> square[kN];
#pragma GCC unroll 16
      for (int r = 0; r < kN; ++r) square[r] = load(rows_of_tile[first + r] + k);
      transpose_square<F>(square);
#pragma GCC unroll 16
      for (int r = 0; r < kN; ++r) store(to + (k + r) * kTileRows + first, square[r]);
    }
  }
  for (; k < depth; ++k) {
    for (int r = 0; r < kTileRows; ++r) to[k * kTileRows + r] = rows_of_tile[r][k];
  }
}

/// Packs rows [row, row + rows) of a, elements [k, k + depth), tile after tile.
template <class F>
void pack_tiles(const GemmShape& s, const F* a, std::int64_t row, std::int64_t rows, std::int64_t k,
                std::int64_t depth, F* packed) {
  for (std::int64_t i = 0; i < rows; i += kTileRows, packed += packed_tile<F>(depth))
    pack_tile<F>(a + (row + i) * s.lda + k, s.lda, min_of(kTileRows, rows - i), depth, packed);
}

/// to[j, i] = from[i, j] for i < rows and j < columns; rows of `from` end in whole vectors.
template <class F>
void store_transposed(const F* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, F* to,
                      std::int64_t to_row) {
  constexpr int kN = kLanes<F>;
  for (std::int64_t i = 0; i < rows; i += kN) {
    const std::int64_t count = min_of(kN, rows - i);
    for (std::int64_t j = 0; j < columns; j += kN) {
      Vec<F> square[kN];
      for (int r = 0; r < kN; ++r) square[r] = r < count ? load(from + (i + r) * from_row + j) : Vec<F>{};
      transpose_square<F>(square);
      for (int r = 0; r < kN && j + r < columns; ++r) {
        F* const place = to + (j + r) * to_row + i;
        if (count == kN) {
          store(place, square[r]);
        } else {
          store_first<F>(place, square[r], count);
        }
      }
    }
  }
}

/// The reverse: to[i, j] = from[j, i] for i < rows and j < columns; rows of `to` end in whole vectors.
template <class F>
void load_transposed(const F* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, F* to,
                     std::int64_t to_row) {
  constexpr int kN = kLanes<F>;
  for (std::int64_t i = 0; i < rows; i += kN) {
    const std::int64_t count = min_of(kN, rows - i);
    for (std::int64_t j = 0; j < columns; j += kN) {
      Vec<F> square[kN];
      for (int r = 0; r < kN; ++r) {
        const F* const place = from + (j + r) * from_row + i;
        square[r] = j + r >= columns ? Vec<F>{} : count == kN ? load(place) : load_first<F>(place, count);
      }
      transpose_square<F>(square);
      for (std::int64_t r = 0; r < count; ++r) store(to + (i + r) * to_row + j, square[r]);
    }
  }
}

}  // namespace
}  // namespace moh
