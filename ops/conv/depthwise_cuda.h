#pragma once

// For kernel files (*_cuda.cu) only: depthwise convolutions of images whose pixels may lie apart, and what is
// done with each pixel of the result. A thread computes 16 bytes of channels (a piece) of some pixels.

#include <algorithm>

#include "ops/conv/depthwise_kernels.h"
#include "ops/cuda/part_sums.h"
#include "ops/cuda/rows.h"

namespace moh {

namespace {

constexpr int kDepthwiseThreads = 128;
constexpr int kStrip = 4;  ///< neighbouring pixels that share the weights a thread reads
constexpr int kTaps = 4;   ///< neighbouring taps that share the pixels a thread reads

/// Pixels of an image, `stride` elements apart.
template <class T>
struct Pixels {
  RowAccess<T> first;
  std::int64_t stride;

  MOH_DEVICE RowAccess<T> at(std::int64_t i) const {
    return {first.row + i * stride, first.width, first.aligned};
  }
};

template <class T>
Pixels<T> pixels_at(T* data, std::int64_t channels, std::int64_t stride) {
  RowAccess<T> first = rows_at(data, channels);
  first.aligned = first.aligned && stride % RowAccess<T>::kPack == 0;
  return {first, stride};
}
template <class T>
Pixels<T> pixels_at(T* data, std::int64_t channels) {
  return pixels_at(data, channels, channels);
}

/// A row of float32 values for every channel, in pieces as long as those of a row of T.
template <class T>
struct ChannelValues {
  static constexpr int kPack = Pack<T>::kCount;
  const float* values;
  std::int64_t channels;
  bool aligned;

  MOH_DEVICE void load(std::int64_t row, std::int64_t first, float (&to)[kPack]) const {
    const float* const from = values + row * channels + first;
    for (int j = 0; j < kPack; j += Pack<float>::kCount) {
      if (aligned) {
        const auto pack = *reinterpret_cast<const Pack<float>*>(from + j);
        for (int k = 0; k < Pack<float>::kCount; ++k) to[j + k] = pack.values[k];
      } else {
        for (int k = 0; k < Pack<float>::kCount; ++k)
          to[j + k] = first + j + k < channels ? from[j + k] : 0.0F;
      }
    }
  }
};

template <class T>
struct Depthwise {
  Pixels<const T> from;
  ChannelValues<T> w;
  RowAccess<const T> b;
  DepthwisePass sizes;
};

/// w [taps, channels], b [channels] or null.
template <class T>
Depthwise<T> depthwise(const Pixels<const T>& from, const float* w, const T* b, const DepthwisePass& pass) {
  const bool aligned = pass.channels % Pack<T>::kCount == 0 && reinterpret_cast<std::uintptr_t>(w) % 16 == 0;
  return {from, {w, pass.channels, aligned}, rows_at(b, pass.channels), pass};
}

/// Computes strip `strip` of row `y` of an image, for the piece of channels at `first`.
template <class T, class Write>
MOH_DEVICE void run_strip(const Depthwise<T>& d, const Write& write, std::int64_t image, int y, int strip,
                          std::int64_t first) {
  constexpr int kPack = Pack<T>::kCount;
  const TapAxis &on_y = d.sizes.y, &on_x = d.sizes.x;
  const int x = strip * kStrip;
  float sum[kStrip][kPack] = {}, values[kPack], weights[kPack];
  if (d.b.row != nullptr) {
    d.b.load(first, values);
    MOH_UNROLL for (int i = 0; i < kStrip; ++i) {
      for (int j = 0; j < kPack; ++j) sum[i][j] = values[j];
    }
  }
  for (int r = 0; r < on_y.taps; ++r) {
    const int seen_y = on_y.seen(y, r);
    if (seen_y < 0) continue;
    const std::int64_t row = (image * on_y.from + seen_y) * on_x.from;
    for (int s = 0; s < on_x.taps; ++s) {
      d.w.load(std::int64_t{r} * on_x.taps + s, first, weights);
      MOH_UNROLL for (int i = 0; i < kStrip; ++i) {
        const int seen_x = on_x.seen(x + i, s);
        if (seen_x < 0) continue;
        d.from.at(row + seen_x).load(first, values);
        for (int j = 0; j < kPack; ++j) sum[i][j] += weights[j] * values[j];
      }
    }
  }
  const std::int64_t pixel = (image * on_y.to + y) * on_x.to + x;
  MOH_UNROLL for (int i = 0; i < kStrip; ++i) {
    if (x + i < on_x.to) write(pixel + i, first, sum[i]);
  }
}

/// One block per row of the result. Write is a struct with
///   MOH_DEVICE void operator()(std::int64_t pixel, std::int64_t first, const float (&values)[kPack]) const.
template <class T, class Write>
MOH_KERNEL(kDepthwiseThreads)
void depthwise_kernel(Depthwise<T> d, Write write) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t image = device::block_x() / d.sizes.y.to;
  const auto y = static_cast<int>(device::block_x() % d.sizes.y.to);
  const auto pieces = static_cast<unsigned>((d.sizes.channels + kPack - 1) / kPack);
  const auto strips = static_cast<unsigned>((d.sizes.x.to + kStrip - 1) / kStrip);
  for (auto i = static_cast<unsigned>(device::thread_x()); i < strips * pieces; i += kDepthwiseThreads)
    run_strip(d, write, image, y, static_cast<int>(i / pieces), std::int64_t{i % pieces} * kPack);
}

inline cuda::LaunchShape depthwise_grid(const DepthwisePass& pass) {
  return {.blocks_x = pass.batch * pass.y.to, .threads = kDepthwiseThreads};
}

template <class T>
struct DepthwiseGradient {
  Pixels<const T> x;
  RowAccess<const T> dy;
  float* partials;  // [parts, taps, channels]
  ConvShape sizes;
};

/// sum += dy of one row of outputs times the pixels of x under taps [tap, tap + kTaps) of row r
/// of the kernel.
template <class T>
MOH_DEVICE void add_row(const DepthwiseGradient<T>& g, std::int64_t row, std::int64_t r, std::int64_t tap,
                        std::int64_t first, float (&sum)[kTaps][Pack<T>::kCount]) {
  constexpr int kPack = Pack<T>::kCount;
  const ConvAxis &on_y = g.sizes.y, &on_x = g.sizes.x;
  const std::int64_t y = row % on_y.output * on_y.stride - on_y.padding + r;
  if (y < 0 || y >= on_y.input) return;
  const std::int64_t seen = (row / on_y.output * on_y.input + y) * on_x.input;
  const RowAccess<const T> outputs = g.dy.at(row * on_x.output);
  for (std::int64_t i = 0; i < on_x.output; ++i) {
    float dy[kPack], x[kPack];
    outputs.at(i).load(first, dy);
    MOH_UNROLL for (int t = 0; t < kTaps; ++t) {
      const std::int64_t at = i * on_x.stride - on_x.padding + tap + t;
      if (tap + t >= on_x.kernel || at < 0 || at >= on_x.input) continue;
      g.x.at(seen + at).load(first, x);
      for (int j = 0; j < kPack; ++j) sum[t][j] += dy[j] * x[j];
    }
  }
}

/// Grid: x strides over rows of outputs, in steps of gridDim.x; y selects some taps of a row of the kernel.
template <class T>
MOH_KERNEL(kMostRowThreads)
void depthwise_gradient_kernel(DepthwiseGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t pieces = (g.sizes.x.kernel + kTaps - 1) / kTaps, channels = g.sizes.channels;
  const std::int64_t r = device::block_y() / pieces, tap = device::block_y() % pieces * kTaps;
  each_piece<T>(channels, [&](std::int64_t first) {
    float sum[kTaps][kPack] = {};
    for (std::int64_t row = device::block_x(); row < g.sizes.output_rows(); row += device::blocks_x())
      add_row(g, row, r, tap, first, sum);
    float* const to =
        g.partials + (device::block_x() * g.sizes.taps() + r * g.sizes.x.kernel + tap) * channels;
    MOH_UNROLL for (int t = 0; t < kTaps; ++t) {
      for (int j = 0; j < kPack; ++j) {
        if (tap + t < g.sizes.x.kernel && first + j < channels) to[t * channels + first + j] = sum[t][j];
      }
    }
  });
}

/// dw [taps, channels] = the sum over all pixels of dy times the pixel of x under each tap.
template <class T>
void sum_weight_gradient(const Pixels<const T>& x, const T* dy, float* dw, const ConvShape& s) {
  constexpr std::int64_t kMostPartials = std::int64_t{4} << 20;  // 16 MiB
  const std::int64_t width = s.taps() * s.channels, rows = s.output_rows();
  const std::int64_t parts = std::min(summing_blocks(rows), std::max<std::int64_t>(kMostPartials / width, 1));
  const DeviceScratch partials(static_cast<std::size_t>(parts * width) * sizeof(float));
  cuda::launch("depthwise_gradient", depthwise_gradient_kernel<T>,
               {.blocks_x = parts,
                .blocks_y = s.y.kernel * ((s.x.kernel + kTaps - 1) / kTaps),
                .threads = row_threads<T>(s.channels)},
               DepthwiseGradient<T>{x, rows_at(dy, s.channels), partials.as<float>(), s});
  sum_parts("sum_parts", {partials.as<float>(), 1, parts, width}, StoreSums{dw});
}

}  // namespace
}  // namespace moh
