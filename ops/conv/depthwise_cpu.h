#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Depthwise convolution, vectorised over channels, which are contiguous. A strip of pixels shares the vectors
// of the weights.

#include "ops/conv/depthwise_kernels.h"
#include "ops/conv/lanes_cpu.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/tile.h"

namespace moh {
namespace {

constexpr int kStrip = 4;
/// Vectors of channels at a time, so that sums of a strip, weights and pixels fit in registers.
constexpr int kMostVecs = kVectorRegisters >= 32 ? 4 : 2;

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
  const T* below;  ///< the row of the source that the next row of the result is the first to read

  const T* from_row(std::int64_t seen_y) const {
    return from.at((image * sizes.y.from + seen_y) * sizes.x.from);
  }
};

/// Taps of a row that have loops of their own, in which each loaded pixel serves all of them.
constexpr int kRowTaps = 3;
/// Pixels that a strip reads.
constexpr int kStripReads = kStrip + kRowTaps - 1;

/// The part [first, last) of a strip that is there.
struct Part {
  std::int64_t first, last;

  bool has(std::int64_t i) const { return i >= first && i < last; }
};
/// The pixels inside the image, of those that a strip reads from position `first` on.
inline Part part_inside(std::int64_t first, std::int64_t pixels) {
  return {first < 0 ? -first : 0, pixels - first};
}

/// Brings to the caches what comes next: of the row of the source below those that the strip reads to L2, and
/// the next strip of the result to L1. A strip reads a stream for each pixel of each row, which are too many
/// for the hardware's prefetchers. A prefetch of what is not there does nothing.
template <class T, int kVecs>
[[gnu::always_inline]] inline void prefetch_next(const T* below, std::int64_t from_stride, T* to,
                                                 std::int64_t to_stride) {
  constexpr int kBytes = kVecs * kLanes<Acc<T>> * static_cast<int>(sizeof(T));
#pragma GCC unroll 4
  for (int i = 0; i < kStrip; ++i) {
#pragma GCC unroll 4
    for (int byte = 0; byte < kBytes; byte += kCacheLine) {
      __builtin_prefetch(reinterpret_cast<const char*>(below + i * from_stride) + byte, 0, 2);
      __builtin_prefetch(reinterpret_cast<char*>(to + (kStrip + i) * to_stride) + byte, 1, 3);
    }
  }
}

/// Adds a row of taps to the sums of a strip; `from` is the first pixel that it reads. kEdge: only those of
/// `inside` are in the image.
template <bool kEdge, class T, int kVecs>
[[gnu::always_inline]] inline void add_row_taps(Vec<Acc<T>> (&sum)[kStrip][kVecs], const T* from,
                                                std::int64_t stride, const Acc<T>* w, std::int64_t w_step,
                                                Part inside, Lanes<T, kVecs> lanes) {
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    Vec<Acc<T>> weight[kRowTaps];
#pragma GCC unroll 3
    for (int s = 0; s < kRowTaps; ++s) weight[s] = lanes.get(w + s * w_step, v);
#pragma GCC unroll 8
    for (int at = 0; at < kStripReads; ++at) {
      if (kEdge && !inside.has(at)) continue;
      const Vec<Acc<T>> pixel = lanes.get(from + at * stride, v);
#pragma GCC unroll 3
      for (int s = 0; s < kRowTaps; ++s) {
        if (at >= s && at - s < kStrip) sum[at - s][v] += weight[s] * pixel;
      }
    }
  }
}

/// Computes channels c of kStrip neighbouring pixels from x on, of a pass with kRowTaps taps a row that are
/// one pixel apart. kEdge: not all that they read is inside the image.
template <bool kEdge, class T, int kVecs>
[[gnu::always_inline]] inline void run_strip(const Pass<T>& p, std::int64_t x, std::int64_t c,
                                             Lanes<T, kVecs> lanes, Pixels<T> to) {
  const std::int64_t channels = p.sizes.channels, stride = p.from.stride;
  const bool mirrored = p.sizes.x.tap_step < 0;
  const std::int64_t first = x + p.sizes.x.offset - (mirrored ? kRowTaps - 1 : 0);
  const Acc<T>* const w = p.w + (mirrored ? (kRowTaps - 1) * channels : 0) + c;
  const Part inside = part_inside(first, p.sizes.x.from);
  Vec<Acc<T>> sum[kStrip][kVecs];
  for (int v = 0; v < kVecs; ++v) {
    const Vec<Acc<T>> start = p.b != nullptr ? lanes.get(p.b + c, v) : Vec<Acc<T>>{};
#pragma GCC unroll 4
    for (int i = 0; i < kStrip; ++i) sum[i][v] = start;
  }
  prefetch_next<T, kVecs>(p.below + x * stride + c, stride, to.at(x) + c, to.stride);
  for (std::int64_t r = 0; r < p.sizes.y.taps; ++r) {
    const std::int64_t seen_y = seen(p.sizes.y, p.y, r);
    if (seen_y < 0) continue;
    add_row_taps<kEdge>(sum, p.from_row(seen_y) + first * stride + c, stride, w + r * kRowTaps * channels,
                        mirrored ? -channels : channels, inside, lanes);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kStrip; ++i) {
    for (int v = 0; v < kVecs; ++v) lanes.put(to.at(x + i) + c, v, sum[i][v]);
  }
}

/// Computes a row of the result in strips; the last begins where it ends with the row.
template <class T>
void run_row_in_strips(const Pass<T>& p, Pixels<T> to) {
  const std::int64_t width = p.sizes.x.to;
  for (std::int64_t begin = 0; begin < width; begin += kStrip) {
    const std::int64_t x = begin + kStrip <= width ? begin : width - kStrip;
    const bool inside = x >= p.inside.first && x + kStrip <= p.inside.last;
    each_lanes<T, kMostVecs>(p.sizes.channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
      if (inside) {
        run_strip<false>(p, x, c, lanes, to);
      } else {
        run_strip<true>(p, x, c, lanes, to);
      }
    });
  }
}

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
  const TapAxis& axis = p.sizes.x;
  if (axis.taps == kRowTaps && axis.step == 1 && axis.divisor == 1 && axis.to >= kStrip)
    return run_row_in_strips(p, to);
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

/// The last source position that a position of the result reads, at least 0.
inline std::int64_t last_seen(const TapAxis& axis, std::int64_t place) {
  std::int64_t last = 0;
  for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
    const std::int64_t found = seen(axis, place, tap);
    if (found > last) last = found;
  }
  return last;
}

/// Computes all rows of the result, and calls after(row) for each, in the thread that computed it.
template <class T, class After>
void run_depthwise(Pixels<const T> from, const Acc<T>* w, const T* b, Pixels<T> to, const DepthwisePass& pass,
                   const After& after) {
  const Inside inside = inside_of(pass.x);
  parallel_for(pass.batch * pass.y.to, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t image = row / pass.y.to, y = row % pass.y.to;
      const std::int64_t last = image * pass.y.from + last_seen(pass.y, y), rows = pass.batch * pass.y.from;
      const T* const below = from.at((last + 1 < rows ? last + 1 : last) * pass.x.from);
      run_row(Pass<T>{from, w, b, pass, inside, image, y, below},
              Pixels<T>{to.at(row * pass.x.to), to.stride});
      after(row);
    }
  });
}

/// Operands of what a row of dy contributes to the gradient of the weights.
template <class T>
struct WeightPass {
  Pixels<const T> x, dy;
  ConvShape sizes;

  std::int64_t seen_y(std::int64_t row, std::int64_t tap) const {
    const std::int64_t y = row % sizes.y.output * sizes.y.stride - sizes.y.padding + tap;
    return y < sizes.y.input ? y : -1;
  }
  const T* x_row(std::int64_t row, std::int64_t y) const {
    return x.at((row / sizes.y.output * sizes.y.input + y) * sizes.x.input);
  }
  const T* dy_row(std::int64_t row) const { return dy.at(row * sizes.x.output); }
};

/// Adds the products of a strip with kRowTaps taps of a row. kEdge: of the strip's outputs, and of the pixels
/// that they read, only these parts are there.
template <bool kEdge, class T, int kVecs>
[[gnu::always_inline]] inline void add_strip_products(Vec<Acc<T>> (&sum)[kRowTaps][kVecs], const T* x,
                                                      std::int64_t x_stride, const T* dy,
                                                      std::int64_t dy_stride, Part outputs, Part inside,
                                                      Lanes<T, kVecs> lanes) {
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    Vec<Acc<T>> of[kStrip];
#pragma GCC unroll 4
    for (int i = 0; i < kStrip; ++i)
      of[i] = kEdge && !outputs.has(i) ? Vec<Acc<T>>{} : lanes.get(dy + i * dy_stride, v);
#pragma GCC unroll 8
    for (int at = 0; at < kStripReads; ++at) {
      if (kEdge && !inside.has(at)) continue;
      const Vec<Acc<T>> pixel = lanes.get(x + at * x_stride, v);
#pragma GCC unroll 3
      for (int s = 0; s < kRowTaps; ++s) {
        if (at >= s && at - s < kStrip) sum[s][v] += pixel * of[at - s];
      }
    }
  }
}

/// Brings channels of a strip of pixels to the L2 cache. A prefetch of what is not there does nothing.
template <class T, int kVecs>
[[gnu::always_inline]] inline void prefetch_strip(const T* from, std::int64_t stride) {
  constexpr int kBytes = kVecs * kLanes<Acc<T>> * static_cast<int>(sizeof(T));
#pragma GCC unroll 4
  for (int i = 0; i < kStrip; ++i) {
#pragma GCC unroll 4
    for (int byte = 0; byte < kBytes; byte += kCacheLine)
      __builtin_prefetch(reinterpret_cast<const char*>(from + i * stride) + byte, 0, 2);
  }
}

/// Outputs of a row whose products are summed in registers at a time: few, so that memory is read nearly in
/// its order.
constexpr std::int64_t kSegment = std::int64_t{4} * kStrip;

/// Adds what outputs [segment, segment + kSegment) of a row contribute to channels c of a row of taps.
/// kAhead: brings the pixels of both images a row further down to the L2 cache.
template <bool kAhead, class T, int kVecs>
[[gnu::always_inline]] inline void add_segment(const WeightPass<T>& p, const T* x_row, const T* dy_row,
                                               std::int64_t segment, std::int64_t c, Lanes<T, kVecs> lanes,
                                               Acc<T>* sums) {
  const std::int64_t channels = p.sizes.channels, width = p.sizes.x.output;
  Vec<Acc<T>> sum[kRowTaps][kVecs];
#pragma GCC unroll 3
  for (int s = 0; s < kRowTaps; ++s) {
    for (int v = 0; v < kVecs; ++v) sum[s][v] = lanes.get(sums + s * channels + c, v);
  }
  const std::int64_t end = segment + kSegment < width ? segment + kSegment : width;
  for (std::int64_t j = segment; j < end; j += kStrip) {
    const std::int64_t first = j - p.sizes.x.padding;
    const T *const x = x_row + first * p.x.stride + c, *const dy = dy_row + j * p.dy.stride + c;
    const Part inside = part_inside(first, p.sizes.x.input), outputs{0, end - j};
    if constexpr (kAhead) {
      prefetch_strip<T, kVecs>(x + p.sizes.x.input * p.x.stride, p.x.stride);
      prefetch_strip<T, kVecs>(dy + p.sizes.x.output * p.dy.stride, p.dy.stride);
    }
    if (inside.first == 0 && inside.last >= kStripReads && outputs.last >= kStrip) {
      add_strip_products<false>(sum, x, p.x.stride, dy, p.dy.stride, outputs, inside, lanes);
    } else {
      add_strip_products<true>(sum, x, p.x.stride, dy, p.dy.stride, outputs, inside, lanes);
    }
  }
#pragma GCC unroll 3
  for (int s = 0; s < kRowTaps; ++s) {
    for (int v = 0; v < kVecs; ++v) lanes.put(sums + s * channels + c, v, sum[s][v]);
  }
}

/// Adds what a row of dy contributes to dw, for kRowTaps taps a row and stride 1 along it.
template <class T>
void add_row_in_strips(const WeightPass<T>& p, std::int64_t row, Acc<T>* sums) {
  const ConvShape& s = p.sizes;
  for (std::int64_t segment = 0; segment < s.x.output; segment += kSegment) {
    each_lanes<T, kMostVecs>(s.channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
      for (std::int64_t r = 0; r < s.y.kernel; ++r) {
        const std::int64_t y = p.seen_y(row, r);
        if (y < 0) continue;
        const T *const x_row = p.x_row(row, y), *const dy_row = p.dy_row(row);
        Acc<T>* const to = sums + r * kRowTaps * s.channels;
        if (r == s.y.kernel - 1) {
          add_segment<true>(p, x_row, dy_row, segment, c, lanes, to);
        } else {
          add_segment<false>(p, x_row, dy_row, segment, c, lanes, to);
        }
      }
    });
  }
}

/// add_row_in_strips() for any kernel and stride, tap by tap.
template <class T>
void add_row_by_taps(const WeightPass<T>& p, std::int64_t row, Acc<T>* sums) {
  const ConvShape& s = p.sizes;
  each_lanes<T, 4>(s.channels, [&]<int kVecs>(std::int64_t c, Lanes<T, kVecs> lanes) {
    for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
      const std::int64_t y = p.seen_y(row, tap / s.x.kernel), tap_x = tap % s.x.kernel;
      const Inside outputs = outputs_of(s.x, tap_x);
      if (y < 0 || outputs.first >= outputs.last) continue;
      const std::int64_t x_first = outputs.first * s.x.stride - s.x.padding + tap_x;
      add_products(p.x_row(row, y) + x_first * p.x.stride + c, s.x.stride * p.x.stride,
                   p.dy_row(row) + outputs.first * p.dy.stride + c, p.dy.stride, outputs.last - outputs.first,
                   lanes, sums + tap * s.channels + c);
    }
  });
}

/// dw [taps, channels] = the sum over all pixels of dy times the pixel of x under each tap.
template <class T>
void sum_weight_gradient(Pixels<const T> x, Pixels<const T> dy, Acc<T>* dw, const ConvShape& s) {
  const WeightPass<T> pass{x, dy, s};
  const bool in_strips = s.x.kernel == kRowTaps && s.x.stride == 1;
  sum_over_rows<Acc<T>>(s.output_rows(), s.taps() * s.channels, dw, [=](std::int64_t row, Acc<T>* partial) {
    if (in_strips) {
      add_row_in_strips(pass, row, partial);
    } else {
      add_row_by_taps(pass, row, partial);
    }
  });
}

}  // namespace
}  // namespace moh
