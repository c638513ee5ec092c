#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The two reductions of a softmax over one row.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/cpu/elementwise.h"
#include "ops/cpu/math.h"

namespace moh {
namespace {

/// The largest element, ignoring NaNs; -inf for an empty row.
template <class T>
[[maybe_unused]] [[gnu::always_inline]] inline Acc<T> largest_of(const T* x, std::int64_t width) {
  using A = Acc<T>;
  const Vec<A> lowest = splat(-std::numeric_limits<A>::infinity());
  Vec<A> even = lowest, odd = lowest;  // independent of each other
  std::int64_t j = 0;
  for (; j + 2 * kLanes<A> <= width; j += 2 * kLanes<A>) {
    even = larger<A>(load_as<T>(x + j), even);
    odd = larger<A>(load_as<T>(x + j + kLanes<A>), odd);
  }
  A top = max_lane<A>(larger<A>(even, odd));
  for (; j < width; ++j) top = A(x[j]) > top ? A(x[j]) : top;
  return top;
}

/// e^x for x <= 0, as a term of a sum: float to 1.3e-7 near 0, where terms count, and to 1.3e-7 |x| below.
[[gnu::always_inline]] inline Vec<float> exp_term(Vec<float> x) {
  return exp2_lanes<float>(x * 1.44269504F);
}
[[gnu::always_inline]] inline Vec<double> exp_term(Vec<double> x) {
  return exp_of_negative(x);
}

/// The largest element, ignoring NaNs, and a sum of e^(x_j - shift).
template <class A, class Sum = double>
struct ExpSum {
  A top;
  Sum sum;
};

/// ExpSum of a block, summed in A. Elements may be above the shift by 1.
template <class T>
[[gnu::always_inline]] inline ExpSum<Acc<T>, Acc<T>> exp_sum_of_block(const T* x, std::int64_t width,
                                                                      Acc<T> shift) {
  using A = Acc<T>;
  const Vec<A> lowest = splat(-std::numeric_limits<A>::infinity());
  Vec<A> top[2] = {lowest, lowest}, sum[2] = {};  // independent of each other
  std::int64_t j = 0;
  for (; j + 2 * kLanes<A> <= width; j += 2 * kLanes<A>) {
    for (int k = 0; k < 2; ++k) {
      prefetch_ahead(x + j + k * kLanes<A>);
      const Vec<A> xj = load_as<T>(x + j + k * kLanes<A>);
      top[k] = larger<A>(xj, top[k]);
      sum[k] += exp_term(xj - shift);
    }
  }
  for (; j < width; j += kLanes<A>) {
    const std::int64_t count = std::min<std::int64_t>(kLanes<A>, width - j);
    const auto inside = lane_numbers<A>() < static_cast<BitsOf<A>>(count);
    const Vec<A> xj = inside ? load_first<T>(x + j, count) : lowest;
    top[0] = larger<A>(xj, top[0]);
    sum[0] += exp_term(xj - shift);
  }
  return {max_lane<A>(larger<A>(top[0], top[1])), sum_lanes<A>(sum[0] + sum[1])};
}

/// The largest element of a row and the sum of e^(x_j - top), in one pass over memory: block by block, whose
/// sums are added in double, exact enough for long rows (vocabularies). What is subtracted is the maximum of
/// the first block until a block exceeds it by more than 1, which is then summed again.
template <class T>
[[maybe_unused]] [[gnu::always_inline]] inline ExpSum<Acc<T>> exp_sum_of(const T* x, std::int64_t width) {
  using A = Acc<T>;
  constexpr std::int64_t kBlock = 1024;
  ExpSum<A> row{largest_of(x, std::min(kBlock, width)), 0.0};
  // With -inf subtracted, as long as there is nothing else, a masked element would become NaN.
  A shift = std::max(row.top, std::numeric_limits<A>::lowest());
  const auto lower_by = [](A from, A to) {
    return std::exp(static_cast<double>(from) - static_cast<double>(to));
  };
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, width - begin);
    auto block = exp_sum_of_block(x + begin, count, shift);
    if (block.top > shift + A(1)) {
      row.sum *= lower_by(shift, block.top);
      shift = block.top;
      block = exp_sum_of_block(x + begin, count, shift);
    }
    row.top = std::max(row.top, block.top);
    row.sum += static_cast<double>(block.sum);
  }
  row.sum *= lower_by(shift, row.top);
  return row;
}

}  // namespace
}  // namespace moh
