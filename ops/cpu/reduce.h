#pragma once

// For kernel files, which are compiled once per instruction set: everything here has internal linkage.

#include <algorithm>
#include <cstdint>

#include "core/parallel.h"
#include "core/scratch.h"

namespace moh {
namespace {

/// Rows per chunk for loops over `count` rows of `width` elements: enough work per chunk to amortise its
/// scheduling, at most 64 chunks so that partial sums stay small, and a function of the sizes alone, so that
/// results do not depend on the number of threads.
[[maybe_unused]] [[gnu::always_inline]] inline std::int64_t row_grain(std::int64_t count,
                                                                      std::int64_t width) {
  const std::int64_t by_work = (std::int64_t{1} << 14) / (width > 0 ? width : 1) + 1;
  const std::int64_t by_chunks = (count + 63) / 64;
  return by_work > by_chunks ? by_work : by_chunks;
}

/// Bytes of scratch of sum_over_rows.
template <class A>
[[maybe_unused]] [[gnu::always_inline]] inline std::size_t row_sums_bytes(std::int64_t count,
                                                                          std::int64_t width) {
  return static_cast<std::size_t>((num_chunks(count, row_grain(count, width)) + 1) * width) * sizeof(A);
}

/// sums[width] = the sum over all chunks of [0, count) of what add_chunk(begin, end, partial) adds to its
/// partial sums of `width` elements.
template <class A, class T, class AddChunk>
[[maybe_unused]] [[gnu::always_inline]] inline void sum_over_chunks(std::int64_t count, std::int64_t grain,
                                                                    std::int64_t width, T* sums,
                                                                    const AddChunk& add_chunk) {
  const std::int64_t chunks = num_chunks(count, grain);
  const Scratch scratch(static_cast<std::size_t>((chunks + 1) * width) * sizeof(A));
  A* partials = scratch.as<A>();
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    A* partial = partials + begin / grain * width;
    for (std::int64_t j = 0; j < width; ++j) partial[j] = A(0);
    add_chunk(begin, end, partial);
  });
  A* total = partials + chunks * width;
  for (std::int64_t j = 0; j < width; ++j) total[j] = A(0);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const A* partial = partials + chunk * width;
    for (std::int64_t j = 0; j < width; ++j) total[j] += partial[j];
  }
  for (std::int64_t j = 0; j < width; ++j) sums[j] = static_cast<T>(total[j]);
}

/// sum_over_chunks() of what add_row(row, partial) adds for each of `count` rows.
template <class A, class T, class AddRow>
[[maybe_unused]] [[gnu::always_inline]] inline void sum_over_rows(std::int64_t count, std::int64_t width,
                                                                  T* sums, const AddRow& add_row) {
  sum_over_chunks<A>(count, row_grain(count, width), width, sums,
                     [&](std::int64_t begin, std::int64_t end, A* partial) {
                       const AddRow local = add_row;  // so that stores in the loop cannot alias the captures
                       for (std::int64_t i = begin; i < end; ++i) local(i, partial);
                     });
}

/// `rows` rows in `count` groups of equal length.
struct RowGroups {
  std::int64_t count = 1;
  std::int64_t rows = 0;
  std::int64_t stride = 0;  ///< elements from the sums of one group to those of the next
};

/// sum_over_rows() for each group: sums[g, width] = the sum over the rows of group g of what add_row(g, row,
/// partial) adds; rows are counted through all groups.
template <class A, class T, class AddRow>
[[maybe_unused]] [[gnu::always_inline]] inline void sum_over_groups(RowGroups groups, std::int64_t width,
                                                                    T* sums, const AddRow& add_row) {
  // Few groups: threads share the rows of each. Many: one group per chunk. The sums have the same bits.
  const std::int64_t grain = groups.count > 0 && groups.count < num_threads() ? groups.count : 1;
  parallel_for(groups.count, grain, [=](std::int64_t begin, std::int64_t end) {
    const std::int64_t each = groups.rows / groups.count;
    for (std::int64_t g = begin; g < end; ++g) {
      sum_over_rows<A>(each, width, sums + g * groups.stride,
                       [=](std::int64_t i, A* partial) { add_row(g, g * each + i, partial); });
    }
  });
}

}  // namespace
}  // namespace moh
