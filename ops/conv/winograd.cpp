#include "ops/conv/winograd.h"

#include <algorithm>

#include "ops/conv/winograd_kernels.h"
#include "ops/linalg/tiled_gemm.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Channels and outputs from which on the transforms cost less than the multiplications that they save.
constexpr std::int64_t kManyChannels = 48;

/// Calls fn.template operator()<Backend, T>() for float32 and bfloat16.
template <class Fn>
void run_winograd(const Tensor& x, const Fn& fn) {
  run_cpu_kernel("conv2d", x, [&]<class Backend, class T>() {
    if constexpr (!std::is_same_v<T, double>) fn.template operator()<Backend, T>();
  });
}

/// Tiles that are transformed and multiplied at a time: their points should stay in L2, but enough of them
/// share the transformed weights. A function of the sizes, as the order of sums of a weight's gradient
/// depends on it.
std::int64_t tiles_at_a_time(const ConvShape& s, std::int64_t bytes, std::int64_t fewest, std::int64_t most) {
  const std::int64_t tile =
      kWinogradPoints * (s.channels + s.outputs) * static_cast<std::int64_t>(sizeof(float));
  return std::min(std::clamp(bytes / tile, fewest, most), winograd_tiles(s));
}

/// Calls body(tiles) for all tiles, `count` at a time.
template <class Body>
void each_block(const ConvShape& s, std::int64_t count, const Body& body) {
  for (std::int64_t first = 0; first < winograd_tiles(s); first += count)
    body(WinogradTiles{first, std::min(first + count, winograd_tiles(s))});
}

/// Room for the points of `tiles` tiles.
Tensor points_of(std::int64_t tiles, std::int64_t width) {
  return empty({kWinogradPoints * winograd_distance(tiles, width)}, DType::kFloat32);
}

/// The matrix multiplications of all points.
void multiply_points(const GemmShape& shape, const GemmSteps& steps, const Tensor& a, const Tensor& b,
                     const Tensor& c, bool accumulate) {
  const GemmBatch batch{kWinogradPoints, steps};
  if (dry_run()) return count_workspace(tiled_gemm_batch_scratch_bytes(shape, batch), kCpu);
  tiled_gemm_batch(shape, batch, a.data<float>(), b.data<float>(), c.data<float>(), accumulate);
}

}  // namespace

bool uses_winograd(const ConvShape& s, DType dtype) {
  const auto fits = [](const ConvAxis& axis) { return axis.kernel == 3 && axis.stride == 1; };
  return dtype != DType::kFloat64 && s.groups == 1 && fits(s.y) && fits(s.x) &&
         std::min(s.channels, s.outputs) >= kManyChannels;
}

void winograd_convolve(const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y) {
  const ProfileScope profile("conv2d", s.flops());
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const std::int64_t count = tiles_at_a_time(s, std::int64_t{3} << 20, 96, 192);
  const Tensor u = empty({kWinogradPoints, s.channels, s.outputs}, DType::kFloat32);
  run_winograd(w, [&]<class Backend, class T>() {
    WinogradKernels<Backend, float>::weights(w.data<float>(), u.data<float>(), s.channels, s.outputs);
  });
  const Tensor v = points_of(count, s.channels), m = points_of(count, s.outputs);
  each_block(s, count, [&](WinogradTiles tiles) {
    run_winograd(x, [&]<class Backend, class T>() {
      WinogradKernels<Backend, T>::input(x.data<T>(), v.data<float>(), s, tiles);
    });
    multiply_points({tiles.count(), s.outputs, s.channels, false, false, s.channels, s.outputs, s.outputs},
                    {winograd_distance(tiles.count(), s.channels), s.channels * s.outputs,
                     winograd_distance(tiles.count(), s.outputs)},
                    v, u, m, /*accumulate=*/false);
    run_winograd(x, [&]<class Backend, class T>() {
      WinogradKernels<Backend, T>::output(m.data<float>(), b.defined() ? b.data<T>() : nullptr, y.data<T>(),
                                          s, tiles);
    });
  });
}

Tensor winograd_weight_gradient(const ConvShape& s, const Tensor& x, const Tensor& dy) {
  const ProfileScope profile("conv2d", s.flops());
  Tensor dw = empty({s.outputs, 9, s.channels}, DType::kFloat32);
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const std::int64_t count = tiles_at_a_time(s, std::int64_t{4} << 20, 128, 256);
  const Tensor v = points_of(count, s.channels), d = points_of(count, s.outputs);
  const Tensor g = zeros({kWinogradPoints, s.outputs, s.channels}, DType::kFloat32);
  each_block(s, count, [&](WinogradTiles tiles) {
    run_winograd(x, [&]<class Backend, class T>() {
      WinogradKernels<Backend, T>::input(x.data<T>(), v.data<float>(), s, tiles);
      WinogradKernels<Backend, T>::output_gradient(dy.data<T>(), d.data<float>(), s, tiles);
    });
    multiply_points({s.outputs, s.channels, tiles.count(), true, false, s.outputs, s.channels, s.channels},
                    {winograd_distance(tiles.count(), s.outputs),
                     winograd_distance(tiles.count(), s.channels), s.channels * s.outputs},
                    d, v, g, /*accumulate=*/true);
  });
  run_winograd(dw, [&]<class Backend, class T>() {
    WinogradKernels<Backend, float>::weight_gradient(g.data<float>(), dw.data<float>(), s.outputs,
                                                     s.channels);
  });
  return dw;
}

}  // namespace moh
