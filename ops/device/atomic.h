#pragma once

#include "ops/device/kernel.h"

// Synchronization between blocks through global memory. Integers only: atomic sums of floats depend on the
// order in which blocks finish, so that results would differ from run to run.

namespace moh::device {

/// Adds, and returns the previous value.
MOH_DEVICE int atomic_add(int* counter, int value) {
  return atomicAdd(counter, value);
}

/// Spins until another block has released `value` (acquire): its earlier writes are visible to this thread.
MOH_DEVICE void wait_for(const int* flag, int value) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  } while (seen != value);
}
/// Stores `value` (release): earlier writes of this thread, and those that it saw after a barrier, are
/// visible to blocks that wait_for() it.
MOH_DEVICE void release(int* flag, int value) {
  __threadfence();
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

}  // namespace moh::device
