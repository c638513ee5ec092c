#pragma once

// For kernel files (*_cuda.cu) only.

#include <cstdint>

#include "ops/cuda/part_sums.h"
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

/// Calls store(0, j, sum) with the sum over the rows of value(i, j), in an order that depends on the sizes
/// and the device alone (sum_parts()). Value is a struct with MOH_DEVICE float operator()(std::int64_t i,
/// std::int64_t j) const.
template <class Value, class Store>
void column_sums(const char* name, const Value& value, Rows rows, const Store& store) {
  const std::int64_t blocks = summing_blocks(rows.count), width = rows.width;
  const DeviceScratch partials(static_cast<std::size_t>(blocks * width) * sizeof(float));
  cuda::launch(name, column_sums_kernel<Value>,
               {.blocks_x = blocks,
                .blocks_y = (width + kColumnThreads - 1) / kColumnThreads,
                .threads = kColumnThreads},
               value, rows, partials.as<float>());
  sum_parts("sum_parts", {partials.as<float>(), 1, blocks, width}, store);
}

/// Two values beside each other, of as many columns each, and their sums.
template <class First, class Second>
struct Beside {
  First first;
  Second second;
  std::int64_t width;  ///< of each
  MOH_DEVICE float operator()(std::int64_t i, std::int64_t j) const {
    return j < width ? first(i, j) : second(i, j - width);
  }
};
struct StoreBeside {
  float *first, *second;
  std::int64_t width;
  float factor;
  MOH_DEVICE void operator()(std::int64_t, std::int64_t j, float sum) const {
    (j < width ? first[j] : second[j - width]) = factor * sum;
  }
};

/// The means over the rows of two values with rows.width columns each; zeros of no rows.
template <class First, class Second>
void column_means(const char* name, const First& first, const Second& second, Rows rows, float* of_first,
                  float* of_second) {
  const float share = rows.count > 0 ? 1.0F / static_cast<float>(rows.count) : 0.0F;
  column_sums(name, Beside<First, Second>{first, second, rows.width}, {rows.count, 2 * rows.width},
              StoreBeside{of_first, of_second, rows.width, share});
}

}  // namespace moh
