#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The order in which a matrix multiplication reads its operands. A panel of b is packed sliver after sliver:
// the columns of one register tile, contiguous in k, so that they stay in L1 while the rows of a pass by.
// Rows of a are packed tile after tile: in place, rows that are a multiple of 4 KiB apart fall into the same
// sets of L2. T is the type of the operands' elements, Factor<T> that of packed ones: bfloat16 is upcast, or
// taken in pairs along k. Depths are in elements, distances of packed data in factors.

#include "ops/cpu/elementwise.h"
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
/// Elements along k in a factor.
template <class T>
constexpr std::int64_t kStep = kTerms<Factor<T>>;
/// Prefetch distance in rows while packing: hardware prefetchers do not detect strides of a row.
constexpr std::int64_t kAhead = 16;

inline std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Distance of packed tiles of `depth` factors. Without the last term many would begin in the same L1 set; a
/// row of the last one is written beyond its end (copy_tiles, pack_tile).
template <class F>
std::int64_t packed_tile(std::int64_t depth) {
  return depth * kTileRows + kLine<F>;
}

/// Distance of the factors of a column in a packed sliver of `columns` columns: that of its whole vectors.
template <class F>
std::int64_t sliver_row(std::int64_t columns) {
  return round_up_to_lanes<F>(min_of(kSliver<F>, columns));
}

/// Packs columns [column, column + count) of op(b), elements [k, k + depth), into the slivers [depth,
/// sliver_row] of a panel.
template <class T>
void pack_panel(const GemmShape& s, const T* b, std::int64_t column, std::int64_t count, std::int64_t k,
                std::int64_t depth, Factor<T>* panel) {
  using F = Factor<T>;
  const std::int64_t factors = factors_in<F>(depth);
  for (std::int64_t c = 0; s.transpose_b && c < count; c += kSliver<F>) {
    pack_transposed<T>(b + (column + c) * s.ldb + k, s.ldb, min_of(kSliver<F>, count - c), depth,
                       panel + c * factors, sliver_row<F>(count - c));
  }
  for (std::int64_t i = 0; !s.transpose_b && i < factors; ++i) {
    const T* from = b + (k + i * kStep<T>)*s.ldb + column;
    for (std::int64_t r = 0; r < kStep<T>; ++r) {
      for (std::int64_t c = 0; c < count; c += kLine<T>)
        __builtin_prefetch(from + (kAhead + r) * s.ldb + c, 0, 2);
    }
    for (std::int64_t c = 0; c < count; c += kSliver<F>) {
      const std::int64_t width = sliver_row<F>(count - c);
      pack_right_rows<T>([=](std::int64_t r) { return from + c + r * s.ldb; },
                         min_of(kStep<T>, depth - i * kStep<T>), min_of(kSliver<F>, count - c),
                         panel + c * factors + i * width, width);
    }
  }
}

[[gnu::always_inline]] inline void copy_eight_pairs(const bfloat16* from, const bfloat16* next,
                                                    Bf16Pair* to) {
  Vec<std::uint16_t, 8> rows[2];
  __builtin_memcpy(&rows[0], from, sizeof rows[0]);
  __builtin_memcpy(&rows[1], next, sizeof rows[1]);
  const Vec<std::uint16_t, 16> pairs =
      __builtin_shufflevector(rows[0], rows[1], 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  __builtin_memcpy(static_cast<void*>(to), &pairs, sizeof pairs);
}

/// to = `count` factors of the rows `from` and, of pairs, `from + row` if there is one.
template <class T>
[[gnu::always_inline]] inline void copy_factors(const T* from, std::int64_t row, bool has_next, Factor<T>* to,
                                                std::int64_t count) {
  if constexpr (std::is_same_v<T, Factor<T>>) {
    copy_rows(from, to, count);
  } else if constexpr (kStep<T> == 2) {
    if (count == 8 && has_next) return copy_eight_pairs(from, from + row, to);
    for (std::int64_t r = 0; r < count; ++r) to[r] = {from[r], has_next ? from[row + r] : bfloat16()};
  } else {
    for (std::int64_t r = 0; r < count; ++r) to[r] = from[r];
  }
}

/// Packs elements [k, k + depth) of rows [row, row + rows) of the transposed a. A row of a tile is copied as
/// kCopied elements if the matrix has them, in one instruction or two: the next row of the tile then
/// overwrites the last of them, or they end after the tile.
template <class T>
void copy_tiles(const GemmShape& s, const T* a, std::int64_t row, std::int64_t rows, std::int64_t k,
                std::int64_t depth, Factor<T>* packed) {
  using F = Factor<T>;
  constexpr std::int64_t kCopied = 8;
  static_assert(kCopied >= kTileRows && kCopied - kTileRows <= kLine<F>);
  const std::int64_t factors = factors_in<F>(depth), distance = packed_tile<F>(factors), stride = s.lda;
  const T* from = a + k * stride + row;
  for (std::int64_t i = 0; i < factors; ++i, from += kStep<T> * stride, packed += kTileRows) {
    const bool has_next = (i + 1) * kStep<T> <= depth;
    F* to = packed;
    std::int64_t r = 0;
    for (; r + kCopied <= rows; r += kTileRows, to += distance) {
      for (std::int64_t term = 0; term < kStep<T> && r % kLine<T> < kTileRows; ++term)  // once a line
        __builtin_prefetch(from + (kAhead + term) * stride + r);
      copy_factors<T>(from + r, stride, has_next, to, kCopied);
    }
    for (; r < rows; r += kTileRows, to += distance)
      copy_factors<T>(from + r, stride, has_next, to, min_of(kTileRows, rows - r));
  }
}

/// Packs elements [0, depth) of `rows` rows into a tile; rows that it lacks are those of the first.
template <class T>
void pack_tile(const T* from, std::int64_t row, std::int64_t rows, std::int64_t depth, Factor<T>* to) {
  using F = Factor<T>;
  constexpr int kN = kLanes<F>;
  constexpr int kLastSquare = (kTileRows - 1) / kN * kN;
  static_assert(kLastSquare + kN - kTileRows <= kLine<F>);
  const T* rows_of_tile[kLastSquare + kN];
  for (int r = 0; r < kLastSquare + kN; ++r)
    rows_of_tile[r] = from + (r < rows && r < kTileRows ? r * row : 0);
  std::int64_t k = 0;
  for (; k + kN * kStep<T> <= depth; k += kN * kStep<T>) {
    F* const square_to = to + k / kStep<T> * kTileRows;
    // The last rows first: what a square writes beyond kTileRows, the next ones overwrite.
    for (int first = kLastSquare; first >= 0; first -= kN) {
      Vec<F> square[kN];
#pragma GCC unroll 16
      for (int r = 0; r < kN; ++r) square[r] = load_factors<T, F>(rows_of_tile[first + r] + k);
      transpose_square<F>(square);
#pragma GCC unroll 16
      for (int r = 0; r < kN; ++r) store(square_to + r * kTileRows + first, square[r]);
    }
  }
  for (; k < depth; k += kStep<T>) {
    for (int r = 0; r < kTileRows; ++r)
      copy_factors<T>(rows_of_tile[r] + k, 1, k + kStep<T> <= depth, to + k / kStep<T> * kTileRows + r, 1);
  }
}

/// Packs rows [row, row + rows) of a, elements [k, k + depth), tile after tile.
template <class T>
void pack_tiles(const GemmShape& s, const T* a, std::int64_t row, std::int64_t rows, std::int64_t k,
                std::int64_t depth, Factor<T>* packed) {
  const std::int64_t distance = packed_tile<Factor<T>>(factors_in<Factor<T>>(depth));
  for (std::int64_t i = 0; i < rows; i += kTileRows, packed += distance)
    pack_tile<T>(a + (row + i) * s.lda + k, s.lda, min_of(kTileRows, rows - i), depth, packed);
}

/// to[j, i] = from[i, j], rounded to C, for i < rows and j < columns; rows of `from` end in whole vectors.
template <class C>
void store_transposed(const Acc<C>* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                      C* to, std::int64_t to_row) {
  using F = Acc<C>;
  constexpr int kN = kLanes<F>;
  for (std::int64_t i = 0; i < rows; i += kN) {
    const std::int64_t count = min_of(kN, rows - i);
    for (std::int64_t j = 0; j < columns; j += kN) {
      Vec<F> square[kN];
      for (int r = 0; r < kN; ++r) square[r] = r < count ? load(from + (i + r) * from_row + j) : Vec<F>{};
      transpose_square<F>(square);
      for (int r = 0; r < kN && j + r < columns; ++r) {
        C* const place = to + (j + r) * to_row + i;
        if (count == kN) {
          store_as<C>(place, square[r]);
        } else {
          store_first<C>(place, square[r], count);
        }
      }
    }
  }
}

/// The reverse: to[i, j] = from[j, i] for i < rows and j < columns; rows of `to` end in whole vectors.
template <class C>
void load_transposed(const C* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                     Acc<C>* to, std::int64_t to_row) {
  using F = Acc<C>;
  constexpr int kN = kLanes<F>;
  for (std::int64_t i = 0; i < rows; i += kN) {
    const std::int64_t count = min_of(kN, rows - i);
    for (std::int64_t j = 0; j < columns; j += kN) {
      Vec<F> square[kN];
      for (int r = 0; r < kN; ++r) {
        const C* const place = from + (j + r) * from_row + i;
        square[r] = j + r >= columns ? Vec<F>{}
                    : count == kN    ? load_as<C>(place)
                                     : load_first<C>(place, count);
      }
      transpose_square<F>(square);
      for (std::int64_t r = 0; r < count; ++r) store(to + (i + r) * to_row + j, square[r]);
    }
  }
}

/// sums = the task's part of c, upcast.
template <class C>
void load_sums(const GemmShape& s, const C* c, const GemmTask& task, Acc<C>* sums, std::int64_t sums_row) {
  const std::int64_t rows = task.row_end - task.row_begin, columns = task.column_end - task.column_begin;
  if (s.transpose_c)
    return load_transposed(c + task.column_begin * s.ldc + task.row_begin, s.ldc, rows, columns, sums,
                           sums_row);
  for (std::int64_t i = 0; i < rows; ++i) {
    gather_row<C>(c + (task.row_begin + i) * s.ldc + task.column_begin, Acc<C>(1), sums + i * sums_row,
                  columns);
  }
}
/// The bias of a part of a product: of its first row or column.
template <class C>
struct PartBias {
  const C* data;    // null: none
  bool is_of_rows;  // an element for each row of the product, whose transpose is written

  /// `bias` has an element for each column of c, which are rows of the product if c is transposed.
  static PartBias of(const GemmShape& s, const C* bias, std::int64_t row, std::int64_t column) {
    return {bias == nullptr ? nullptr : bias + (s.transpose_c ? row : column), s.transpose_c};
  }
  PartBias at_row(std::int64_t row) const { return is_of_rows ? moved(row) : *this; }
  PartBias at_column(std::int64_t column) const { return is_of_rows ? *this : moved(column); }

 private:
  PartBias moved(std::int64_t by) const { return {data == nullptr ? nullptr : data + by, is_of_rows}; }
};

/// sums[rows, columns] += the bias, if there is one.
template <class C>
void add_bias(const PartBias<C>& bias, std::int64_t rows, std::int64_t columns,
              const OutMatrix<Acc<C>>& sums) {
  using F = Acc<C>;
  for (std::int64_t i = 0; bias.data != nullptr && i < rows; ++i) {
    F* const row = sums.data + i * sums.row;
    if (bias.is_of_rows) {
      const Vec<F> added = splat<F>(F(bias.data[i]));
      for_vectors_in<F>(0, columns, [=](auto at) { at.store(row, at.load_cached(row) + added); });
    } else {
      const C* const added = bias.data;
      for_vectors_in<F>(0, columns,
                        [=](auto at) { at.store(row, at.load_cached(row) + at.load_cached(added)); });
    }
  }
}
/// The task's part of c = sums, rounded.
template <class C>
void store_sums(const GemmShape& s, const Acc<C>* sums, std::int64_t sums_row, const GemmTask& task, C* c) {
  const std::int64_t rows = task.row_end - task.row_begin, columns = task.column_end - task.column_begin;
  if (s.transpose_c)
    return store_transposed(sums, sums_row, rows, columns, c + task.column_begin * s.ldc + task.row_begin,
                            s.ldc);
  for (std::int64_t i = 0; i < rows; ++i)
    store_row<C>(sums + i * sums_row, Acc<C>(1), c + (task.row_begin + i) * s.ldc + task.column_begin,
                 columns);
}

}  // namespace
}  // namespace moh
