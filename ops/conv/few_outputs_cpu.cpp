#include "core/parallel.h"
#include "ops/conv/few_outputs_kernels.h"
#include "ops/conv/taps_cpu.h"
#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// Pixels of a strip: their sums, the weights of a tap and one pixel fit in registers.
template <int kOutputs>
constexpr int kStripOf = (kVectorRegisters - kOutputs - 1) / kOutputs < 8
                             ? (kVectorRegisters - kOutputs - 1) / kOutputs
                             : 8;

/// The output pixels of a strip: of row `row`, numbered through all images, from column x on.
struct Place {
  std::int64_t row, x;
};

/// sum[i][o] += the products of a tap with a vector of channels: kLanes of them, or the first `count`.
template <class T, int kPixels, int kOutputs>
[[gnu::always_inline]] inline void add_channels(Vec<Acc<T>> (&sum)[kPixels][kOutputs], const T* pixel,
                                                std::int64_t step, const Acc<T>* w, std::int64_t w_step,
                                                std::int64_t count) {
  using A = Acc<T>;
  const bool whole = count >= kLanes<A>;
  Vec<A> weight[kOutputs];
#pragma GCC unroll 4
  for (int o = 0; o < kOutputs; ++o)
    weight[o] = whole ? load(w + o * w_step) : load_first<A>(w + o * w_step, count);
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) {
    const Vec<A> value = whole ? load_as<T>(pixel + i * step) : load_first<T>(pixel + i * step, count);
#pragma GCC unroll 4
    for (int o = 0; o < kOutputs; ++o) sum[i][o] += value * weight[o];
  }
}

/// Computes kPixels neighbouring outputs of a row; taps of `columns` are inside the image for all of them.
template <class T, int kPixels, int kOutputs>
void run_pixels(const T* x, const Acc<T>* w, const T* b, T* y, const ConvShape& s, Place at,
                TapRange columns) {
  using A = Acc<T>;
  constexpr int kN = kLanes<A>;
  const std::int64_t channels = s.channels, values = s.taps() * channels, step = s.x.stride * channels;
  const std::int64_t image = at.row / s.y.output, i = at.row % s.y.output;
  const std::int64_t y0 = i * s.y.stride - s.y.padding, x0 = at.x * s.x.stride - s.x.padding;
  const TapRange rows = taps_inside(s.y, i);
  Vec<A> sum[kPixels][kOutputs] = {};
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    // The taps of a row are neighbours in memory, and so are their weights.
    const T* from = x + ((image * s.y.input + y0 + r) * s.x.input + x0 + columns.first) * channels;
    const A* of = w + (r * s.x.kernel + columns.first) * channels;
    const std::int64_t count = (columns.last - columns.first) * channels;
    std::int64_t c = 0;
    for (; c + kN <= count; c += kN) add_channels(sum, from + c, step, of + c, values, kN);
    if (c < count) add_channels(sum, from + c, step, of + c, values, count - c);
  }
  T* to = y + (at.row * s.x.output + at.x) * kOutputs;
  for (int p = 0; p < kPixels; ++p) {
    for (int o = 0; o < kOutputs; ++o)
      to[p * kOutputs + o] = sum_lanes<A>(sum[p][o]) + (b != nullptr ? A(b[o]) : A(0));
  }
}

template <class T, int kOutputs>
void run_row(const T* x, const Acc<T>* w, const T* b, T* y, const ConvShape& s, std::int64_t row) {
  constexpr int kPixels = kStripOf<kOutputs>;
  const auto sees_all = [&s](std::int64_t j) {
    const TapRange taps = taps_inside(s.x, j);
    return taps.last - taps.first == s.x.kernel;
  };
  for (std::int64_t j = 0; j < s.x.output;) {
    const bool strip = j + kPixels <= s.x.output && sees_all(j) && sees_all(j + kPixels - 1);
    if (strip) {
      run_pixels<T, kPixels, kOutputs>(x, w, b, y, s, {row, j}, {0, s.x.kernel});
    } else {
      run_pixels<T, 1, kOutputs>(x, w, b, y, s, {row, j}, taps_inside(s.x, j));
    }
    j += strip ? kPixels : 1;
  }
}

}  // namespace

template <class Backend, class T>
void ConvFewOutputs<Backend, T>::forward(const T* x, const Acc<T>* w, const T* b, T* y, const ConvShape& s) {
  parallel_for(s.output_rows(), 1, [=, &s](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (s.outputs == 1) run_row<T, 1>(x, w, b, y, s, row);
      if (s.outputs == 2) run_row<T, 2>(x, w, b, y, s, row);
      if (s.outputs == 3) run_row<T, 3>(x, w, b, y, s, row);
      if (s.outputs == 4) run_row<T, 4>(x, w, b, y, s, row);
    }
  });
}

template struct ConvFewOutputs<cpu::MOH_ISA, float>;
template struct ConvFewOutputs<cpu::MOH_ISA, bfloat16>;
template struct ConvFewOutputs<cpu::MOH_ISA, double>;

}  // namespace moh
