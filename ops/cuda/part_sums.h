#pragma once

// For kernel files (*_cuda.cu) only: sums of many partial sums of few columns.

#include <cstdint>

#include "ops/device/block.h"
#include "ops/gradient_destination.h"

namespace moh {

inline constexpr int kPartWarps = 8, kPartThreads = kPartWarps * device::kWarp;

/// [groups, count, width]
struct Parts {
  const float* data;
  std::int64_t groups, count, width;
};

/// Grid: x counts blocks of 32 columns, y groups. A warp adds each eighth part, in order; then the sums of
/// the warps are added.
template <class Store>
MOH_KERNEL(kPartThreads)
void part_sums_kernel(Parts parts, Store store) {
  auto* const space = device::shared_memory<float>();
  const int lane = device::thread_x() % device::kWarp, warp = device::thread_x() / device::kWarp;
  const std::int64_t column = device::block_x() * device::kWarp + lane;
  const bool real = column < parts.width;
  const float* const from = parts.data + device::block_y() * parts.count * parts.width + (real ? column : 0);
  float sum = 0;
  for (std::int64_t part = warp; part < parts.count; part += kPartWarps) sum += from[part * parts.width];
  space[device::thread_x()] = sum;
  device::sync_block();
  if (warp > 0 || !real) return;
  for (int w = 1; w < kPartWarps; ++w) sum += space[w * device::kWarp + lane];
  store(device::block_y(), column, sum);
}

/// Calls store(group, column, sum) on the device with the sum of each column's parts, which are added in a
/// fixed order. Store is a struct with MOH_DEVICE void operator()(std::int64_t, std::int64_t, float) const.
template <class Store>
void sum_parts(const char* name, const Parts& parts, const Store& store) {
  cuda::launch(name, part_sums_kernel<Store>,
               {.blocks_x = (parts.width + device::kWarp - 1) / device::kWarp,
                .blocks_y = parts.groups,
                .threads = kPartThreads,
                .shared_bytes = kPartThreads * sizeof(float)},
               parts, store);
}

/// sums[group, column] = factor times the sum, consecutive groups `stride` elements apart.
struct StoreSums {
  float* sums;
  float factor = 1;
  std::int64_t stride = 0;
  MOH_DEVICE void operator()(std::int64_t group, std::int64_t column, float sum) const {
    sums[group * stride + column] = factor * sum;
  }
};

/// Stores sums as gradients, consecutive groups `stride` elements apart.
template <class T>
struct StoreGradients {
  GradientDestination<T> to;
  std::int64_t stride = 0;
  MOH_DEVICE void operator()(std::int64_t group, std::int64_t column, float sum) const {
    const std::int64_t at = group * stride + column;
    if (to.added_to != nullptr) {
      to.added_to[at] = static_cast<float>(to.added_to[at]) + sum;
    } else {
      to.overwritten[at] = sum;
    }
  }
};

}  // namespace moh
