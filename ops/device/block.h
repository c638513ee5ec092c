#pragma once

#include "ops/device/kernel.h"

namespace moh::device {

/// Waits until all threads of the block are here; all see what any wrote before.
MOH_DEVICE void sync_block() {
  __syncthreads();
}
/// The same for `threads` threads, whole warps, that share barrier `id` (1 to 15).
MOH_DEVICE void sync_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace moh::device
