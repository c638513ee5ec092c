#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Rows of a few elements each, kLanes of them at a time, as one vector per column: arithmetic along such rows
// needs no horizontal operations.

#include <cstdint>
#include <cstring>
#include <limits>

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// Elements of the staging area of `width` columns.
template <class F>
[[gnu::always_inline]] inline std::int64_t staged_elements(std::int64_t width) {
  return (kLanes<F> + 1) * round_up_to_lanes<F>(width);
}

/// Copies `count` rows of `width` elements; rows begin `from_stride` and `to_stride` elements apart.
template <class F>
[[gnu::always_inline]] inline void copy_rows(const F* from, std::int64_t from_stride, std::int64_t count,
                                             std::int64_t width, F* to, std::int64_t to_stride) {
  if (from_stride == width && to_stride == width) {
    std::memcpy(to, from, static_cast<std::size_t>(count * width) * sizeof(F));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(width) * sizeof(F));
}

/// columns[j] = element j of each of `count` <= kLanes rows of `width` elements, which begin `stride` apart
/// from `from` on; other lanes hold anything. `available`: elements that may be read from there on. Up to
/// round_up_to_lanes(width) columns are written.
template <class F>
[[gnu::always_inline]] inline void load_columns(const F* from, std::int64_t stride, std::int64_t available,
                                                std::int64_t count, std::int64_t width, Vec<F>* columns,
                                                F* staging) {
  constexpr std::int64_t kN = kLanes<F>;
  if (available < kN * stride + round_up_to_lanes<F>(width)) {
    copy_rows(from, stride, count, width, staging, width);
    from = staging;
    stride = width;
  }
  for (std::int64_t first = 0; first < width; first += kN) {
    Vec<F> square[kN];
    for (std::int64_t i = 0; i < kN; ++i) square[i] = load(from + i * stride + first);
    transpose_square<F>(square);
    for (std::int64_t j = 0; j < kN; ++j) columns[first + j] = square[j];
  }
}

/// The rows of these columns, one after the other, in `staging`. V: a Vec<F>, or one of integers of F's size.
template <class F, class V>
[[gnu::always_inline]] inline void stage_columns(const V* columns, std::int64_t width, F* staging) {
  constexpr std::int64_t kN = kLanes<F>;
  // Elements stored past the end of a row are overwritten by the next row, or by columns further to the left.
  for (std::int64_t first = round_up_to_lanes<F>(width) - kN; first >= 0; first -= kN) {
    Vec<F> square[kN];
    for (std::int64_t j = 0; j < kN; ++j) square[j] = (Vec<F>)columns[first + j];
    transpose_square<F>(square);
    for (std::int64_t i = 0; i < kN; ++i) store<F>(staging + i * width + first, square[i]);
  }
}

/// Stores the first `count` rows of these columns at `to`, where rows begin `stride` elements apart.
template <class F>
[[gnu::always_inline]] inline void store_columns(const Vec<F>* columns, std::int64_t count,
                                                 std::int64_t width, F* to, std::int64_t stride, F* staging) {
  stage_columns<F>(columns, width, staging);
  copy_rows<F>(staging, width, count, width, to, stride);
}

/// store_columns() for columns of integers, converted to To.
template <class F, class To>
[[gnu::always_inline]] inline void store_integers(const Vec<BitsOf<F>>* columns, std::int64_t count,
                                                  std::int64_t width, To* to, F* staging) {
  stage_columns<F>(columns, width, staging);
#pragma omp simd
  for (std::int64_t i = 0; i < count * width; ++i) {
    BitsOf<F> integer;
    std::memcpy(&integer, staging + i, sizeof integer);
    to[i] = static_cast<To>(integer);
  }
}

/// Integers in the order of the numbers, zeros alike, below all of them NaN.
template <class A>
[[gnu::always_inline]] inline Vec<BitsOf<A>> sort_keys(Vec<A> x) {
  using Bits = BitsOf<A>;
  const auto bits = (Vec<Bits>)(x + A(0));  // -0 becomes 0
  const Vec<Bits> key =
      bits ^ ((bits >> (8 * static_cast<int>(sizeof(A)) - 1)) & std::numeric_limits<Bits>::max());
  return x == x ? key : std::numeric_limits<Bits>::min() + Vec<Bits>{};
}

/// ranks[e]: how many of `count` columns are before column e, which is the larger ones, and the equal ones of
/// lower columns. `keys` is scratch memory of as many.
template <class A>
[[gnu::always_inline]] inline void rank_columns(const Vec<A>* columns, std::int64_t count,
                                                Vec<BitsOf<A>>* keys, Vec<BitsOf<A>>* ranks) {
  using Bits = BitsOf<A>;
  for (std::int64_t e = 0; e < count; ++e) {
    const Vec<Bits> key = sort_keys<A>(columns[e]);
    Vec<Bits> rank = static_cast<Bits>(e) + Vec<Bits>{};
    for (std::int64_t lower = 0; lower < e; ++lower) {
      const Vec<Bits> after = key > keys[lower];  // -1 where true
      ranks[lower] -= after;
      rank += after;
    }
    keys[e] = key;
    ranks[e] = rank;
  }
}

}  // namespace
}  // namespace moh
