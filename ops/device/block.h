#pragma once

#include "ops/device/kernel.h"

namespace moh::device {

/// Barrier for all threads of the block; their earlier writes are visible to all of them.
MOH_DEVICE void sync_block() {
  __syncthreads();
}
/// sync_block() for `threads` threads, whole warps, on named barrier `id` (1 to 15).
MOH_DEVICE void sync_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace moh::device
