#pragma once

// For kernel files (*_cuda.cu) only: kernels whose steps are shorter on GPUs with little shared memory.

#include <cstddef>

#include "core/cuda/device.h"

namespace moh::tensor_cores {

/// Shared memory of a multiprocessor where it is scarce: compute capability 8.6, 8.9 and 12.0. Each block
/// takes some for the system, so that a block may have less.
inline constexpr std::size_t kScarceBytes = 100 << 10, kSystemBytes = 1 << 10;

constexpr bool two_blocks_fit(std::size_t block_bytes, std::size_t multiprocessor_bytes) {
  return 2 * (block_bytes + kSystemBytes) <= multiprocessor_bytes;
}

/// Whether blocks share a multiprocessor in pairs with shorter steps alone, where its memory is scarce: one
/// block by itself does not hide the time that its loads take.
template <std::size_t kBytes, std::size_t kShortBytes>
inline constexpr bool kPairsIfShort =
    !two_blocks_fit(kBytes, kScarceBytes) && two_blocks_fit(kShortBytes, kScarceBytes);

/// Whether the open GPU has no room for two such blocks.
inline bool lacks_room_for_two(std::size_t block_bytes) {
  return !two_blocks_fit(block_bytes, cuda::limits().shared_bytes_per_block + kSystemBytes);
}

}  // namespace moh::tensor_cores
