#pragma once

#include <cstddef>
#include <cstdint>

namespace moh::cuda {

/// A block of device memory that allocate() has handed out; without bytes: none.
struct MemoryBlock {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};

/// From now on block_at() knows the blocks that are handed out: a table that costs a search at each
/// allocation.
void track_blocks();
/// The tracked block that an address lies in, if any.
MemoryBlock block_at(const void* address);

/// Bytes that this process holds from the device, in use or kept for reuse, by what hands them out.
struct HeldBytes {
  std::int64_t pool = 0;        ///< CUDA's pool
  std::int64_t arenas = 0;      ///< of captured work (core/cuda/arena.h)
  std::int64_t persistent = 0;  ///< blocks of PersistentMemoryScope (core/cuda/queue.h)
};
HeldBytes held_bytes();

}  // namespace moh::cuda
