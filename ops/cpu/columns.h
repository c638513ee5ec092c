#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Rows of a few elements each, kLanes of them at a time, as one vector per column: arithmetic along such rows
// needs no horizontal operations.

#include <cstdint>
#include <cstring>

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// Elements of the staging area of `width` columns.
template <class F>
[[gnu::always_inline]] inline std::int64_t staged_elements(std::int64_t width) {
  return (kLanes<F> + 1) * round_up_to_lanes<F>(width);
}

/// columns[j] = element j of each of `count` <= kLanes rows that lie at `from`; other lanes hold anything.
/// `available`: elements that may be read from there on. Up to round_up_to_lanes(width) columns are written.
template <class F>
[[gnu::always_inline]] inline void load_columns(const F* from, std::int64_t available, std::int64_t count,
                                                std::int64_t width, Vec<F>* columns, F* staging) {
  constexpr std::int64_t kN = kLanes<F>;
  if (available < staged_elements<F>(width)) {
    std::memcpy(staging, from, static_cast<std::size_t>(count * width) * sizeof(F));
    from = staging;
  }
  for (std::int64_t first = 0; first < width; first += kN) {
    Vec<F> square[kN];
    for (std::int64_t i = 0; i < kN; ++i) square[i] = load(from + i * width + first);
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

/// Stores the first `count` rows of these columns at `to`.
template <class F>
[[gnu::always_inline]] inline void store_columns(const Vec<F>* columns, std::int64_t count,
                                                 std::int64_t width, F* to, F* staging) {
  stage_columns<F>(columns, width, staging);
  std::memcpy(to, staging, static_cast<std::size_t>(count * width) * sizeof(F));
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

}  // namespace
}  // namespace moh
