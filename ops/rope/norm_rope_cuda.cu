#include <cmath>

#include "ops/cuda/block_sizes.h"
#include "ops/cuda/part_sums.h"
#include "ops/cuda/rows.h"
#include "ops/rope/norm_rope_kernels.h"

namespace moh {

namespace {

/// The operands of both passes.
template <class T>
struct Heads {
  NormRopeOperands<T> of;
  RopeSizes sizes;

  MOH_DEVICE std::int64_t count() const { return sizes.batch * sizes.positions * sizes.heads; }
  /// Index of the first angle of a head's position.
  MOH_DEVICE std::int64_t angles_of(std::int64_t row) const {
    return sizes.row(row / sizes.heads) * sizes.half;
  }
};

template <class T>
struct NormRope {
  Heads<T> heads;
  T* y;
  float *r, eps;
};

/// partials [blocks, 2 half].
template <class T>
struct NormRopeGradient {
  Heads<T> heads;
  const T* dy;
  const float* r;
  T* dx;
  float* partials;
};

/// body(i) for the pairs of the lane.
template <class Body>
MOH_DEVICE void each_pair(std::int64_t half, const Body& body) {
  for (std::int64_t i = device::thread_x() % device::kWarp; i < half; i += device::kWarp) body(i);
}

/// One warp per head; all lanes of a warp without a head return.
template <class T>
MOH_KERNEL(kItemThreads)
void norm_rope_kernel(NormRope<T> n) {
  const std::int64_t row = item_of_warp();
  const Heads<T>& h = n.heads;
  if (row >= h.count()) return;
  const std::int64_t half = h.sizes.half;
  const T *x = h.of.x + row * 2 * half, *w = h.of.w;
  const float *c = h.of.cos + h.angles_of(row), *s = h.of.sin + h.angles_of(row);
  T* y = n.y + row * 2 * half;
  float squares = 0;
  each_pair(half, [&](std::int64_t i) {
    const float a = x[i], b = x[i + half];
    squares += a * a + b * b;
  });
  const float scale = 1.0F / sqrtf(reduce_warp(squares, Sum{}) / static_cast<float>(2 * half) + n.eps);
  if (device::thread_x() % device::kWarp == 0) n.r[row] = scale;
  each_pair(half, [&](std::int64_t i) {
    const float a = static_cast<float>(x[i]) * scale * static_cast<float>(w[i]);
    const float b = static_cast<float>(x[i + half]) * scale * static_cast<float>(w[i + half]);
    y[i] = a * c[i] - b * s[i];
    y[i + half] = b * c[i] + a * s[i];
  });
}

/// The gradients of the two elements of a pair before their rotation.
struct TurnedBack {
  float first, second;
};
template <class T>
MOH_DEVICE TurnedBack turned_back(const T* dy, std::int64_t half, float c, float s, std::int64_t i) {
  const float a = dy[i], b = dy[i + half];
  return {a * c + b * s, b * c - a * s};
}

/// Warps stride over the heads. A warp's partial sum of dw is in shared memory; each element is written by
/// one lane, and the warps' sums are added in order.
template <class T>
MOH_KERNEL(kItemThreads)
void norm_rope_gradient_kernel(NormRopeGradient<T> n) {
  const Heads<T>& h = n.heads;
  const std::int64_t half = h.sizes.half, width = 2 * half;
  const std::int64_t warp = device::thread_x() / device::kWarp;
  auto* all = device::shared_memory<float>();
  float* dw = all + warp * width;
  each_pair(half, [&](std::int64_t i) { dw[i] = dw[i + half] = 0; });
  for (std::int64_t row = device::block_x() * kItemWarps + warp; row < h.count();
       row += device::blocks_x() * kItemWarps) {
    const T *x = h.of.x + row * width, *dy = n.dy + row * width, *w = h.of.w;
    const float *c = h.of.cos + h.angles_of(row), *s = h.of.sin + h.angles_of(row);
    T* dx = n.dx + row * width;
    const float scale = n.r[row];
    float dot = 0;
    each_pair(half, [&](std::int64_t i) {
      const TurnedBack dn = turned_back(dy, half, c[i], s[i], i);
      const float first = dn.first * static_cast<float>(x[i]);
      const float second = dn.second * static_cast<float>(x[i + half]);
      dot += first * static_cast<float>(w[i]) + second * static_cast<float>(w[i + half]);
      dw[i] += first * scale;
      dw[i + half] += second * scale;
    });
    const float shrink = scale * scale * reduce_warp(dot, Sum{}) / static_cast<float>(width);
    each_pair(half, [&](std::int64_t i) {
      const TurnedBack dn = turned_back(dy, half, c[i], s[i], i);
      dx[i] = scale * (dn.first * static_cast<float>(w[i]) - static_cast<float>(x[i]) * shrink);
      dx[i + half] =
          scale * (dn.second * static_cast<float>(w[i + half]) - static_cast<float>(x[i + half]) * shrink);
    });
  }
  device::sync_block();
  for (std::int64_t j = device::thread_x(); j < width; j += kItemThreads) {
    float sum = 0;
    for (int k = 0; k < kItemWarps; ++k) sum += all[k * width + j];
    n.partials[device::block_x() * width + j] = sum;
  }
}

std::int64_t norm_rope_blocks(const RopeSizes& sizes) {
  return item_blocks(sizes.batch * sizes.positions * sizes.heads);
}

}  // namespace

template <class Backend, class T>
void NormRopeKernels<Backend, T>::forward(const NormRopeOperands<T>& of, T* y, Acc<T>* r, RopeSizes sizes,
                                          double eps) {
  const NormRope<T> n{{of, sizes}, y, r, static_cast<float>(eps)};
  cuda::launch("norm_rope", norm_rope_kernel<T>,
               {.blocks_x = norm_rope_blocks(sizes), .threads = kItemThreads}, n);
}

// The equations are beside the CPU kernel.
template <class Backend, class T>
void NormRopeKernels<Backend, T>::backward(const T* dy, const NormRopeOperands<T>& of, const Acc<T>* r, T* dx,
                                           Acc<T>* dw, RopeSizes sizes) {
  const std::int64_t blocks = summing_blocks(norm_rope_blocks(sizes)), width = 2 * sizes.half;
  const DeviceScratch partials(static_cast<std::size_t>(blocks * width) * sizeof(float));
  const NormRopeGradient<T> n{{of, sizes}, dy, r, dx, partials.as<float>()};
  cuda::launch("norm_rope_gradient", norm_rope_gradient_kernel<T>,
               {.blocks_x = blocks,
                .threads = kItemThreads,
                .shared_bytes = static_cast<std::size_t>(kItemWarps * width) * sizeof(float)},
               n);
  sum_parts("sum_parts", {partials.as<float>(), 1, blocks, width}, StoreSums{dw});
}

template struct NormRopeKernels<Cuda, float>;
template struct NormRopeKernels<Cuda, bfloat16>;

}  // namespace moh
