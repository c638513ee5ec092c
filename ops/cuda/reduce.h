#pragma once

// For kernel files (*_cuda.cu) only. All sums are formed in a fixed order, so that reruns give the same bits.

#include <cstdint>

#include "ops/cuda/scratch.h"
#include "ops/device/block.h"
#include "ops/device/warp.h"

namespace moh {

struct Sum {
  template <class A>
  MOH_DEVICE A operator()(A a, A b) const {
    return a + b;
  }
};
struct Largest {
  template <class A>
  MOH_DEVICE A operator()(A a, A b) const {
    return a > b ? a : b;
  }
};

/// All-reduce over the warp.
template <class A, class Combine>
MOH_DEVICE A reduce_warp(A value, Combine combine) {
  for (int mask = device::kWarp / 2; mask > 0; mask /= 2)
    value = combine(value, device::shuffle_xor(value, mask));
  return value;
}

/// All-reduce over the block. `space` is shared memory for one value per warp, which may be reused after the
/// next barrier.
template <class A, class Combine>
MOH_DEVICE A reduce_block(A value, Combine combine, A* space) {
  value = reduce_warp(value, combine);
  if (device::thread_x() % device::kWarp == 0) space[device::thread_x() / device::kWarp] = value;
  device::sync_block();
  value = space[0];
  for (int i = 1; i < device::block_threads() / device::kWarp; ++i) value = combine(value, space[i]);
  return value;
}

}  // namespace moh
