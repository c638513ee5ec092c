#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Depthwise convolution, vectorised over channels, which are contiguous. A strip of pixels shares the vectors
// of the weights.

#include "ops/conv/depthwise_kernels.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/simd.h"

namespace moh {
namespace {

constexpr int kStrip = 4;
/// Vectors of channels at a time, so that sums of a strip, weights and pixels fit in registers.
constexpr int kMostVecs = kVectorRegisters >= 32 ? 4 : 2;

/// Vectors of channels: all of `kVecs`, or the first `count` lanes of one.
template <class T, int kVecs>
struct Lanes {
  using V = Vec<Acc<T>>;
  static constexpr int kN = kLanes<Acc<T>>;
  std::int64_t count;  // kN * kVecs, or fewer than kN

  template <class S>
  [[gnu::always_inline]] V get(const S* from, int v) const {
    if (kVecs == 1 && count < kN) return load_first<S>(from, count);
    return load_as<S>(from + v * kN);
  }
  template <class S>
  [[gnu::always_inline]] void put(S* to, int v, V value) const {
    if (kVecs == 1 && count < kN) return store_first<S>(to, value, count);
    store_as<S>(to + v * kN, value);
  }
};

/// Calls body(c, lanes) for all channels: many vectors at a time, then one, then part of one.
template <class T, int kVecs, class Body>
[[gnu::always_inline]] inline void each_lanes(std::int64_t channels, const Body& body) {
  constexpr std::int64_t kN = kLanes<Acc<T>>;
  std::int64_t c = 0;
  for (; c + kVecs * kN <= channels; c += kVecs * kN) body(c, Lanes<T, kVecs>{kVecs * kN});
  for (; c < channels; c += kN) body(c, Lanes<T, 1>{channels - c < kN ? channels - c : kN});
}

/// TapAxis::seen without divisions if the divisor is 1.
[[gnu::always_inline]] inline std::int64_t seen(const TapAxis& axis, std::int64_t place, std::int64_t tap) {
  if (axis.divisor != 1) return axis.seen(static_cast<std::int32_t>(place), static_cast<std::int32_t>(tap));
  const std::int64_t found = place * axis.step + tap * axis.tap_step + axis.offset;
  return found >= 0 && found < axis.from ? found : -1;
}

/// Output positions [first, last) of an axis for which every tap is inside the image, step apart
/// from each other.
struct Inside {
  std::int64_t first, last;
};
inline Inside inside_of(const TapAxis& axis) {
  const auto sees_all = [&axis](std::int64_t place) {
    return axis.divisor == 1 && seen(axis, place, 0) >= 0 && seen(axis, place, axis.taps - 1) >= 0;
  };
  std::int64_t first = 0;
  while (first < axis.to && !sees_all(first)) ++first;
  std::int64_t last = first;
  while (last < axis.to && sees_all(last)) ++last;
  return {first, last};
}

/// Pixels in memory, `stride` elements from one to the next: the channels of an image, or some of them.
template <class T>
struct Pixels {
  T* data;
  std::int64_t stride;

  T* at(std::int64_t pixel) const { return data + pixel * stride; }
};

/// Operands of a row of the result.
template <class T>
struct Pass {
  Pixels<const T> from;
  const Acc<T>* w;
  const T* b;
  DepthwisePass sizes;
  Inside inside;
  std::int64_t image, y;

  const T* from_row(std::int64_t seen_y) const {
    return from.at((image * sizes.y.from + seen_y) * sizes.x.from);
  }
};

/// Computes channels c of kPixels neighbouring pixels from x on. kInside: every tap of a row is
/// inside the image.
template <int kPixels, bool kInside, class T, int kVecs>
[[gnu::always_inline]] inline void run_pixels(const Pass<T>& p, std::int64_t x, std::int64_t c,
                                              Lanes<T, kVecs> lanes, Pixels<T> to) {
  const std::int64_t channels = p.sizes.channels, step = p.sizes.x.step * p.from.stride;
  Vec<Acc<T>> sum[kPixels][kVecs];
  for (int v = 0; v < kVecs; ++v) {
    const Vec<Acc<T>> start = p.b != nullptr ? lanes.get(p.b + c, v) : Vec<Acc<T>>{};
    for (int i = 0; i < kPixels; ++i) sum[i][v] = start;
  }
  for (std::int64_t r = 0; r < p.sizes.y.taps; ++r) {
    const std::int64_t seen_y = seen(p.sizes.y, p.y, r);
    if (seen_y < 0) continue;
    const T* const row = p.from_row(seen_y) + c;
    const Acc<T>* w = p.w + r * p.sizes.x.taps * channels + c;
    for (std::int64_t s = 0; s < p.sizes.x.taps; ++s, w += channels) {
      const std::int64_t seen_x = seen(p.sizes.x, x, s);
      if (!kInside && seen_x < 0) continue;
      const T* const from = row + seen_x * p.from.stride;
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec<Acc<T>> weight = lanes.get(w, v);
#pragma GCC unroll 4
        for (int i = 0; i < kPixels; ++i) sum[i][v] += weight * lanes.get(from + i * step, v);
      }
    }
  }
  for (int i = 0; i < kPixels; ++i) {
    for (int v = 0; v < kVecs; ++v) lanes.put(to.at(x + i) + c, v, sum[i][v]);
  }
}

/// Computes a row of the result.
template <class T>
void run_row(const Pass<T>& p, Pixels<T> to) {
  for (std::int64_t x = 0; x < p.sizes.x.to;) {
    const bool strip = x >= p.inside.first && x + kStrip <= p.inside.last;
    each_lanes<T, kMostVecs>(p.sizes.channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
      if (strip) {
        run_pixels<kStrip, true>(p, x, c, lanes, to);
      } else {
        run_pixels<1, false>(p, x, c, lanes, to);
      }
    });
    x += strip ? kStrip : 1;
  }
}

/// sums += the sum over `count` pixels of dy x; pixels of x are x_step apart.
template <class T, int kVecs>
[[gnu::always_inline]] inline void add_products(const T* x, std::int64_t x_step, const T* dy,
                                                std::int64_t dy_step, std::int64_t count,
                                                Lanes<T, kVecs> lanes, Acc<T>* sums) {
  Vec<Acc<T>> sum[kVecs];
  for (int v = 0; v < kVecs; ++v) sum[v] = lanes.get(sums, v);
  for (std::int64_t i = 0; i < count; ++i, x += x_step, dy += dy_step) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) sum[v] += lanes.get(x, v) * lanes.get(dy, v);
  }
  for (int v = 0; v < kVecs; ++v) lanes.put(sums, v, sum[v]);
}

/// Outputs [first, last) for which a tap is inside the image.
[[gnu::always_inline]] inline Inside outputs_of(const ConvAxis& axis, std::int64_t tap) {
  const std::int64_t low = axis.padding - tap, high = axis.input - 1 + low;
  const std::int64_t first = low > 0 ? (low + axis.stride - 1) / axis.stride : 0;
  const std::int64_t last = high < 0 ? 0 : high / axis.stride + 1;
  return {first, last < axis.output ? last : axis.output};
}

/// Computes all rows of the result, and calls after(row) for each, in the thread that computed it.
template <class T, class After>
void run_depthwise(Pixels<const T> from, const Acc<T>* w, const T* b, Pixels<T> to, const DepthwisePass& pass,
                   const After& after) {
  const Inside inside = inside_of(pass.x);
  parallel_for(pass.batch * pass.y.to, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      run_row(Pass<T>{from, w, b, pass, inside, row / pass.y.to, row % pass.y.to},
              Pixels<T>{to.at(row * pass.x.to), to.stride});
      after(row);
    }
  });
}

/// dw [taps, channels] = the sum over all pixels of dy times the pixel of x under each tap.
template <class T>
void sum_weight_gradient(Pixels<const T> x, Pixels<const T> dy, Acc<T>* dw, const ConvShape& s) {
  const std::int64_t channels = s.channels;
  sum_over_rows<Acc<T>>(s.output_rows(), s.taps() * channels, dw, [=](std::int64_t row, Acc<T>* partial) {
    const std::int64_t image = row / s.y.output, y0 = row % s.y.output * s.y.stride - s.y.padding;
    const T* const dy_row = dy.at(row * s.x.output);
    each_lanes<T, 4>(channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
      for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
        const std::int64_t y = y0 + tap / s.x.kernel, tap_x = tap % s.x.kernel;
        const Inside outputs = outputs_of(s.x, tap_x);
        if (y < 0 || y >= s.y.input || outputs.first >= outputs.last) continue;
        const std::int64_t x_first = outputs.first * s.x.stride - s.x.padding + tap_x;
        add_products(x.at((image * s.y.input + y) * s.x.input + x_first) + c, s.x.stride * x.stride,
                     dy_row + outputs.first * dy.stride + c, dy.stride, outputs.last - outputs.first, lanes,
                     partial + tap * channels + c);
      }
    });
  });
}

}  // namespace
}  // namespace moh
