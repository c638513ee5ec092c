#pragma once

// For kernel files (*_cuda.cu) only: the blocks of most kernels.

#include <cstddef>
#include <cstdint>

#include "ops/device/kernel.h"

namespace moh {

/// Blocks whose warps have an item each: a row, a token, a head of a token.
inline constexpr int kItemWarps = 4, kItemThreads = kItemWarps * device::kWarp;
/// Blocks for so many items.
inline std::int64_t item_blocks(std::int64_t items) {
  return (items + kItemWarps - 1) / kItemWarps;
}
/// The item of the calling thread's warp.
MOH_DEVICE std::int64_t item_of_warp() {
  return device::block_x() * kItemWarps + device::thread_x() / device::kWarp;
}

/// Blocks whose threads share what they go through.
inline constexpr int kBlockWarps = 8, kBlockThreads = kBlockWarps * device::kWarp;
/// Shared memory in which such a block adds up numbers of type T: reduce_block().
template <class T>
inline constexpr std::size_t kBlockSumBytes = kBlockWarps * sizeof(T);

}  // namespace moh
