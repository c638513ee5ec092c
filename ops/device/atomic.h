#pragma once

#include "ops/device/kernel.h"

// Between blocks, in global memory. Only integers: sums of floats in the order that blocks happen to finish
// would differ from run to run.

namespace moh::device {

/// Adds and returns the value before.
MOH_DEVICE int atomic_add(int* counter, int value) {
  return atomicAdd(counter, value);
}

/// Waits until another block has released `value`; what that block wrote before is visible to this thread.
MOH_DEVICE void wait_for(const int* flag, int value) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  } while (seen != value);
}
/// Makes what this thread wrote, or saw after a barrier, visible to blocks that wait for `value`.
MOH_DEVICE void release(int* flag, int value) {
  __threadfence();
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

}  // namespace moh::device
