#include <cmath>

#include "ops/cuda/block_sizes.h"
#include "ops/cuda/lanes.h"
#include "ops/cuda/rows.h"
#include "ops/loss/top1_kernels.h"

// One warp per row.

namespace moh {

namespace {

/// The index of the largest of `count` numbers, on all lanes.
template <class E>
MOH_DEVICE std::int64_t largest_of(const E* values, std::int64_t count) {
  std::int64_t best = device::thread_x() % device::kWarp;
  float top = best < count ? static_cast<float>(values[best]) : NAN;
  on_lanes(count, [&](std::int64_t j) {
    const auto value = static_cast<float>(values[j]);
    if (!precedes(value, j, top, best)) return;
    best = j;
    top = value;
  });
  for (int mask = device::kWarp / 2; mask > 0; mask /= 2) {
    const float other_top = device::shuffle_xor(top, mask);
    const std::int64_t other = device::shuffle_xor(best, mask);
    if (!precedes(other_top, other, top, best)) continue;
    best = other;
    top = other_top;
  }
  return best;
}

/// The row of this warp.
template <class T>
MOH_KERNEL(kItemThreads)
void largest_kernel(const T* logits, std::int64_t* classes, Rows rows) {
  const std::int64_t i = item_of_warp();
  if (i >= rows.count) return;
  const std::int64_t found = largest_of(logits + i * rows.width, rows.width);
  if (device::thread_x() % device::kWarp == 0) classes[i] = found;
}

template <class T>
MOH_KERNEL(kItemThreads)
void top1_kernel(const T* logits, const float* targets, float* hits, Rows rows) {
  const std::int64_t i = item_of_warp();
  if (i >= rows.count) return;
  const std::int64_t found = largest_of(logits + i * rows.width, rows.width),
                     expected = largest_of(targets + i * rows.width, rows.width);
  if (device::thread_x() % device::kWarp == 0) hits[i] = found == expected ? 1.0F : 0.0F;
}

}  // namespace

template <class Backend, class T>
void Top1Kernels<Backend, T>::largest(const T* logits, std::int64_t* classes, Rows rows) {
  cuda::launch("top1", largest_kernel<T>, {.blocks_x = item_blocks(rows.count), .threads = kItemThreads},
               logits, classes, rows);
}

template <class Backend, class T>
void Top1Kernels<Backend, T>::compare(const T* logits, const Acc<T>* targets, Acc<T>* hits, Rows rows) {
  cuda::launch("top1_share", top1_kernel<T>, {.blocks_x = item_blocks(rows.count), .threads = kItemThreads},
               logits, targets, hits, rows);
}

template struct Top1Kernels<Cuda, float>;
template struct Top1Kernels<Cuda, bfloat16>;

}  // namespace moh
