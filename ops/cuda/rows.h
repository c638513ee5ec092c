#pragma once

// For kernel files (*_cuda.cu) only: a block works along a row of a matrix.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/cuda/tag.h"
#include "ops/cuda/map.h"
#include "ops/cuda/reduce.h"
#include "ops/op.h"

namespace moh {

/// A row of `width` elements, accessed in pieces of 16 bytes if all rows are aligned to 16 bytes.
template <class T>
struct RowAccess {
  static constexpr int kPack = Pack<T>::kCount;
  T* row;
  std::int64_t width;
  bool aligned;

  /// Elements [first, first + kPack) in float32; zeros past the end.
  MOH_DEVICE void load(std::int64_t first, float (&to)[kPack]) const {
    if (aligned) {
      const auto pack = *reinterpret_cast<const Pack<std::remove_const_t<T>>*>(row + first);
      for (int j = 0; j < kPack; ++j) to[j] = pack.values[j];
    } else {
      for (int j = 0; j < kPack; ++j) to[j] = first + j < width ? static_cast<float>(row[first + j]) : 0.0F;
    }
  }
  MOH_DEVICE void store(std::int64_t first, const float (&from)[kPack]) const {
    if (aligned) {
      Pack<T> pack;
      for (int j = 0; j < kPack; ++j) pack.values[j] = from[j];
      *reinterpret_cast<Pack<T>*>(row + first) = pack;
    } else {
      for (int j = 0; j < kPack; ++j) {
        if (first + j < width) row[first + j] = from[j];
      }
    }
  }
  MOH_DEVICE RowAccess at(std::int64_t i) const { return {row + i * width, width, aligned}; }
};

template <class T>
RowAccess<T> rows_at(T* data, std::int64_t width) {
  constexpr int kPack = RowAccess<T>::kPack;
  return {data, width, width % kPack == 0 && reinterpret_cast<std::uintptr_t>(data) % 16 == 0};
}

/// Calls body(first) for the pieces of a row, distributed over the threads of the block.
template <class T, class Body>
MOH_DEVICE void each_piece(std::int64_t width, const Body& body) {
  constexpr int kPack = Pack<T>::kCount;
  for (std::int64_t first = std::int64_t{device::thread_x()} * kPack; first < width;
       first += std::int64_t{device::block_threads()} * kPack)
    body(first);
}

/// Threads of a block that works along rows of `width` elements: one per piece, in whole warps.
inline constexpr int kMostRowThreads = 256;
template <class T>
int row_threads(std::int64_t width) {
  const std::int64_t pieces = (width + Pack<T>::kCount - 1) / Pack<T>::kCount;
  return static_cast<int>(std::clamp<std::int64_t>((pieces + 31) / 32 * 32, 32, kMostRowThreads));
}

/// Shared memory for reduce_block.
template <class A>
struct ReduceSpace {
  A values[kMostRowThreads / device::kWarp];
};

/// The largest element of a row, and the sum of e^((element - largest) factor).
struct ExpSum {
  float top, sum;
};
/// ExpSum of the block's row, which is read once; `space` points to two ReduceSpaces in shared memory. The
/// largest element counts as `lowest` at least.
template <class T>
MOH_DEVICE ExpSum exp_sum_of(const RowAccess<const T>& row, ReduceSpace<float>* space, float factor = 1.0F,
                             float lowest = -INFINITY) {
  constexpr int kPack = Pack<T>::kCount;
  const auto shrinks = [&](float from, float to) { return from < to ? expf((from - to) * factor) : 1.0F; };
  float top = lowest, sum = 0;
  each_piece<T>(row.width, [&](std::int64_t first) {
    float values[kPack];
    row.load(first, values);
    float next = top;
    for (int j = 0; j < kPack && first + j < row.width; ++j) next = fmaxf(next, values[j]);
    sum *= shrinks(top, next);
    top = next;
    const float base = top == -INFINITY ? 0.0F : top;  // then all are -inf, or NaN
    for (int j = 0; j < kPack && first + j < row.width; ++j) sum += expf((values[j] - base) * factor);
  });
  const float own = top;
  top = reduce_block(top, Largest{}, space[0].values);
  return {top, reduce_block(sum * shrinks(own, top), Sum{}, space[1].values)};
}

/// Number of blocks of a kernel that sums over all rows, block b over rows b, b + blocks, ...: few enough
/// that the partial sums stay small, and a function of the device and the sizes alone. For `groups` separate
/// sums: the blocks of each.
inline std::int64_t summing_blocks(std::int64_t count, std::int64_t groups = 1) {
  const std::int64_t all = std::int64_t{4} * cuda::limits().multiprocessors;
  return std::min(count, groups > 0 ? (all + groups - 1) / groups : 0);
}

/// Bytes of shared memory of such a kernel: a ReduceSpace, and `sums` partial sums for each column.
template <class T>
std::size_t summing_space(std::int64_t width, int sums) {
  constexpr std::int64_t kPack = Pack<T>::kCount;
  const std::int64_t padded = (width + kPack - 1) / kPack * kPack;
  return sizeof(ReduceSpace<float>) + static_cast<std::size_t>(padded * sums) * sizeof(float);
}

}  // namespace moh
