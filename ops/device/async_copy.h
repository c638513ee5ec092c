#pragma once

#include "ops/device/kernel.h"

// Asynchronous copies from global to shared memory (cp.async). A thread sees its own copies after
// wait_copies(), those of other threads after a barrier that follows it.

namespace moh::device {

/// Copies 16 bytes, or writes 16 zero bytes if `real` is false. Both addresses are multiples of 16; if `real`
/// is false, `from` is not read but must be a valid device address.
MOH_DEVICE void copy_async_16(void* shared, const void* from, bool real) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(real ? 16 : 0)
               : "memory");
}
/// Commits the thread's copies since the last commit as one group.
MOH_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most the kLeft newest groups of the thread are still pending.
template <int kLeft>
MOH_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

}  // namespace moh::device
