#pragma once

// For kernel files (*_cuda.cu) only.

#include <cstdint>

#include "ops/device/block.h"
#include "ops/device/warp.h"

namespace moh {

/// Exclusive prefix sum over the kThreads threads of a block; *total gets the sum of all. `space` is shared
/// memory for one value per warp, which may be reused at once.
template <int kThreads, class A>
MOH_DEVICE A sum_before(A value, A* space, A* total) {
  const int lane = device::thread_x() % device::kWarp, warp = device::thread_x() / device::kWarp;
  A sum = value;
  for (int distance = 1; distance < device::kWarp; distance *= 2) {
    const A other = device::shuffle(sum, lane >= distance ? lane - distance : lane);
    if (lane >= distance) sum += other;
  }
  if (lane == device::kWarp - 1) space[warp] = sum;
  device::sync_block();
  A before = 0;
  *total = 0;
  for (int w = 0; w < kThreads / device::kWarp; ++w) {
    if (w == warp) before = *total;
    *total += space[w];
  }
  device::sync_block();
  return before + sum - value;
}

/// Exclusive prefix sum: sums[i] = counts[0] + ... + counts[i - 1] for 0 <= i <= count. For one block of
/// kThreads threads with shared memory for kThreads int64; each thread scans a range of its own. The arrays
/// must not overlap.
template <int kThreads, class T>
MOH_DEVICE void scan_counts(const T* counts, std::int64_t count, std::int64_t* sums) {
  auto* const shared = device::shared_memory<std::int64_t>();
  const std::int64_t stretch = (count + kThreads - 1) / kThreads, begin = device::thread_x() * stretch;
  const std::int64_t end = begin + stretch < count ? begin + stretch : count;
  std::int64_t sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += counts[i];
  shared[device::thread_x()] = sum;
  device::sync_block();
  std::int64_t before = 0;
  for (int i = 0; i < device::thread_x(); ++i) before += shared[i];
  for (std::int64_t i = begin; i < end; ++i) {
    sums[i] = before;
    before += counts[i];
  }
  if (device::thread_x() == kThreads - 1) sums[count] = before;
}

}  // namespace moh
