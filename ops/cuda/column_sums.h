#pragma once

// For kernel files (*_cuda.cu) only.

#include <cstdint>

#include "ops/cuda/rows.h"

namespace moh {

inline constexpr int kColumnThreads = 128;

/// partials[b, j] = the sum of value(i, j) over rows i = b, b + gridDim.x, ... gridDim.y splits the columns.
template <class Value>
MOH_KERNEL(kColumnThreads)
void column_sums_kernel(Value value, Rows rows, float* partials) {
  const std::int64_t j = device::block_y() * kColumnThreads + device::thread_x();
  if (j >= rows.width) return;
  float sum = 0;
  for (std::int64_t i = device::block_x(); i < rows.count; i += device::blocks_x()) sum += value(i, j);
  partials[device::block_x() * rows.width + j] = sum;
}

/// sums[j] = factor times the sum over the rows of value(i, j), in an order that depends on the sizes and the
/// device alone. Value is a struct with MOH_DEVICE float operator()(std::int64_t i, std::int64_t j) const.
template <class Value>
void column_sums(const char* name, const Value& value, Rows rows, float factor, float* sums) {
  const std::int64_t blocks = summing_blocks(rows.count), width = rows.width;
  const DeviceScratch partials(static_cast<std::size_t>(blocks * width) * sizeof(float));
  cuda::launch(name, column_sums_kernel<Value>,
               {.blocks_x = blocks,
                .blocks_y = (width + kColumnThreads - 1) / kColumnThreads,
                .threads = kColumnThreads},
               value, rows, partials.as<float>());
  cuda::launch_each("sum_partials", width,
                    SumPartials<float, float>{partials.as<float>(), blocks, width, sums, factor});
}

}  // namespace moh
