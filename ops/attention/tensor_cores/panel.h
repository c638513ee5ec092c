#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/cuda/map.h"
#include "ops/device/async_copy.h"

// For kernel files only: heads in shared memory, in a layout for tensor cores.

namespace moh::tensor_cores {

/// Threads of a block that works on a tile: four warps.
inline constexpr int kWarps = 4, kThreads = kWarps * device::kWarp;

/// Elements of one copy: 16 bytes.
inline constexpr int kChunk = Pack<bfloat16>::kCount;

/// Layout of heads of kHeadDim elements in a panel, one per row: an mma reduces over 16 columns, so rows are
/// padded with zeros to a multiple of 16; a row stride of an odd number of 16-byte chunks keeps load_matrices
/// free of bank conflicts.
template <int kHeadDim>
struct Panel {
  static_assert(kHeadDim % kChunk == 0);
  static constexpr int kReduced = (kHeadDim + 15) / 16 * 16;
  static constexpr int kStride = kReduced / kChunk % 2 == 0 ? kReduced + kChunk : kReduced;
};

/// kRows heads of kHeadDim elements in shared memory.
template <int kHeadDim, int kRows>
struct alignas(16) Heads {
  bfloat16 elements[kRows * Panel<kHeadDim>::kStride];

  MOH_DEVICE bfloat16* row(int r) { return elements + r * Panel<kHeadDim>::kStride; }
};

/// A thread's number `own` among `count` threads that copy together.
struct Copiers {
  int own, count;
};

/// Starts asynchronous copies of `rows` rows to a panel. row_at(r) is the address of row r in global memory,
/// a multiple of 16, or null for a row of zeros. `anything` is any valid address in global memory.
template <int kHeadDim, class RowAt>
MOH_DEVICE void copy_heads(bfloat16* panel, int rows, const Copiers& copiers, const bfloat16* anything,
                           const RowAt& row_at) {
  constexpr int kChunks = Panel<kHeadDim>::kReduced / kChunk;
  for (int i = copiers.own; i < rows * kChunks; i += copiers.count) {
    const int r = i / kChunks, c = i % kChunks * kChunk;
    const bfloat16* const row = row_at(r);
    const bool real = row != nullptr && c < kHeadDim;
    device::copy_async_16(panel + r * Panel<kHeadDim>::kStride + c, real ? row + c : anything, real);
  }
}

/// copy_heads() for a whole panel, by the kThreads threads of the block.
template <int kHeadDim, int kRows, class RowAt>
MOH_DEVICE void copy_heads(Heads<kHeadDim, kRows>& heads, const bfloat16* anything, const RowAt& row_at) {
  copy_heads<kHeadDim>(heads.elements, kRows, {device::thread_x(), kThreads}, anything, row_at);
}

/// copy_heads() for consecutive keys or values: row r is read from `first` + r * stride; rows from `rows` on
/// are zeros.
template <int kHeadDim, int kRows>
MOH_DEVICE void copy_heads(Heads<kHeadDim, kRows>& heads, const bfloat16* first, std::int64_t stride,
                           int rows) {
  copy_heads(heads, first, [&](int r) { return r < rows ? first + r * stride : nullptr; });
}

/// Copies 16 rows from a panel to global memory; by one warp. Rows for which row_at(r) is null are skipped.
template <int kHeadDim, class RowAt>
MOH_DEVICE void store_strip(const bfloat16* panel_row, const RowAt& row_at) {
  constexpr int kChunks = kHeadDim / kChunk;
  for (int i = device::thread_x() % device::kWarp; i < 16 * kChunks; i += device::kWarp) {
    const int r = i / kChunks, c = i % kChunks * kChunk;
    bfloat16* const row = row_at(r);
    if (row != nullptr)
      *reinterpret_cast<Pack<bfloat16>*>(row + c) =
          *reinterpret_cast<const Pack<bfloat16>*>(panel_row + r * Panel<kHeadDim>::kStride + c);
  }
}

}  // namespace moh::tensor_cores
