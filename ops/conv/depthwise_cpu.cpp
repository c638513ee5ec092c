#include "ops/conv/depthwise_kernels.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/simd.h"

// Channels lie together, so vectors go over them. A strip of pixels shares the vectors of the weights.

namespace moh {
namespace {

constexpr int kStrip = 4;

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

/// Places [first, last) of an axis that see the image through every tap, with neighbours step apart.
struct Inside {
  std::int64_t first, last;
};
inline Inside inside_of(const TapAxis& axis) {
  const auto sees_all = [&axis](std::int64_t place) {
    return axis.divisor == 1 && axis.seen(place, 0) >= 0 && axis.seen(place, axis.taps - 1) >= 0;
  };
  std::int64_t first = 0;
  while (first < axis.to && !sees_all(first)) ++first;
  std::int64_t last = first;
  while (last < axis.to && sees_all(last)) ++last;
  return {first, last};
}

template <class T>
struct Pass {
  const T* from;
  const Acc<T>* w;
  const T* b;
  T* to;
  DepthwisePass sizes;
  Inside inside;

  const T* from_row(std::int64_t image, std::int64_t y) const {
    return from + (image * sizes.y.from + y) * sizes.x.from * sizes.channels;
  }
};

/// kPixels neighbours, all of which see the image through every tap of the row.
template <int kPixels, class T>
void run_strip(const Pass<T>& p, std::int64_t image, std::int64_t y, std::int64_t x, T* to) {
  const std::int64_t channels = p.sizes.channels, step = p.sizes.x.step * channels;
  const std::int64_t tap_step = p.sizes.x.tap_step * channels, first = p.sizes.x.seen(x, 0) * channels;
  each_lanes<T, 2>(channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
    Vec<Acc<T>> sum[kPixels][kVecs];
    for (int v = 0; v < kVecs; ++v) {
      const Vec<Acc<T>> start = p.b != nullptr ? lanes.get(p.b + c, v) : Vec<Acc<T>>{};
      for (int i = 0; i < kPixels; ++i) sum[i][v] = start;
    }
    for (std::int64_t r = 0; r < p.sizes.y.taps; ++r) {
      const std::int64_t seen = p.sizes.y.seen(y, r);
      if (seen < 0) continue;
      const T* from = p.from_row(image, seen) + first + c;
      const Acc<T>* w = p.w + r * p.sizes.x.taps * channels + c;
      for (std::int64_t s = 0; s < p.sizes.x.taps; ++s, from += tap_step, w += channels) {
#pragma GCC unroll 2
        for (int v = 0; v < kVecs; ++v) {
          const Vec<Acc<T>> weight = lanes.get(w, v);
#pragma GCC unroll 4
          for (int i = 0; i < kPixels; ++i) sum[i][v] += weight * lanes.get(from + i * step, v);
        }
      }
    }
    for (int i = 0; i < kPixels; ++i) {
      for (int v = 0; v < kVecs; ++v) lanes.put(to + i * channels + c, v, sum[i][v]);
    }
  });
}

/// One pixel anywhere.
template <class T>
void run_pixel(const Pass<T>& p, std::int64_t image, std::int64_t y, std::int64_t x, T* to) {
  const std::int64_t channels = p.sizes.channels;
  each_lanes<T, 4>(channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
    Vec<Acc<T>> sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = p.b != nullptr ? lanes.get(p.b + c, v) : Vec<Acc<T>>{};
    for (std::int64_t r = 0; r < p.sizes.y.taps; ++r) {
      const std::int64_t seen_y = p.sizes.y.seen(y, r);
      if (seen_y < 0) continue;
      for (std::int64_t s = 0; s < p.sizes.x.taps; ++s) {
        const std::int64_t seen_x = p.sizes.x.seen(x, s);
        if (seen_x < 0) continue;
        const T* from = p.from_row(image, seen_y) + seen_x * channels + c;
        const Acc<T>* w = p.w + (r * p.sizes.x.taps + s) * channels + c;
        for (int v = 0; v < kVecs; ++v) sum[v] += lanes.get(w, v) * lanes.get(from, v);
      }
    }
    for (int v = 0; v < kVecs; ++v) lanes.put(to + c, v, sum[v]);
  });
}

template <class T>
void run_row(const Pass<T>& p, std::int64_t row) {
  const std::int64_t image = row / p.sizes.y.to, y = row % p.sizes.y.to, width = p.sizes.x.to;
  T* const to = p.to + row * width * p.sizes.channels;
  for (std::int64_t x = 0; x < width;) {
    if (x >= p.inside.first && x + kStrip <= p.inside.last) {
      run_strip<kStrip>(p, image, y, x, to + x * p.sizes.channels);
      x += kStrip;
    } else {
      run_pixel(p, image, y, x, to + x * p.sizes.channels);
      ++x;
    }
  }
}

/// sums[channels] += the sum over `count` pixels of dy x; pixels of x are x_step apart.
template <class T>
void add_products(const T* x, std::int64_t x_step, const T* dy, std::int64_t count, std::int64_t channels,
                  Acc<T>* sums) {
  each_lanes<T, 4>(channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
    Vec<Acc<T>> sum[kVecs];
    for (int v = 0; v < kVecs; ++v) sum[v] = lanes.get(sums + c, v);
    const T *xi = x + c, *dyi = dy + c;
    for (std::int64_t i = 0; i < count; ++i, xi += x_step, dyi += channels) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sum[v] += lanes.get(xi, v) * lanes.get(dyi, v);
    }
    for (int v = 0; v < kVecs; ++v) lanes.put(sums + c, v, sum[v]);
  });
}

/// Outputs [first, last) that see the image through a tap.
[[gnu::always_inline]] inline Inside outputs_of(const ConvAxis& axis, std::int64_t tap) {
  const std::int64_t low = axis.padding - tap, high = axis.input - 1 + low;
  const std::int64_t first = low > 0 ? (low + axis.stride - 1) / axis.stride : 0;
  const std::int64_t last = high < 0 ? 0 : high / axis.stride + 1;
  return {first, last < axis.output ? last : axis.output};
}

}  // namespace

template <class Backend, class T>
void DepthwiseKernels<Backend, T>::run(const T* from, const Acc<T>* w, const T* b, T* to,
                                       const DepthwisePass& pass) {
  const Pass<T> p{from, w, b, to, pass, inside_of(pass.x)};
  parallel_for(pass.batch * pass.y.to, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) run_row(p, row);
  });
}

template <class Backend, class T>
void DepthwiseKernels<Backend, T>::weight_gradient(const T* x, const T* dy, Acc<T>* dw, const ConvShape& s) {
  const std::int64_t channels = s.channels;
  sum_over_rows<Acc<T>>(s.output_rows(), s.taps() * channels, dw, [=](std::int64_t row, Acc<T>* partial) {
    const std::int64_t image = row / s.y.output, y0 = row % s.y.output * s.y.stride - s.y.padding;
    const T* const dy_row = dy + row * s.x.output * channels;
    for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
      const std::int64_t y = y0 + tap / s.x.kernel, tap_x = tap % s.x.kernel;
      const Inside outputs = outputs_of(s.x, tap_x);
      if (y < 0 || y >= s.y.input || outputs.first >= outputs.last) continue;
      const std::int64_t x_first = outputs.first * s.x.stride - s.x.padding + tap_x;
      add_products(x + ((image * s.y.input + y) * s.x.input + x_first) * channels, s.x.stride * channels,
                   dy_row + outputs.first * channels, outputs.last - outputs.first, channels,
                   partial + tap * channels);
    }
  });
}

template struct DepthwiseKernels<cpu::MOH_ISA, float>;
template struct DepthwiseKernels<cpu::MOH_ISA, bfloat16>;
template struct DepthwiseKernels<cpu::MOH_ISA, double>;

}  // namespace moh
