#include "core/cpu_isa.h"
#include "train/augment/byte_lanes.h"
#include "train/augment/resize_kernels.h"

namespace moh {

namespace {

constexpr int kBits = 22;                                       ///< ResampleWeights::kBits
constexpr std::int32_t kHalf = std::int32_t{1} << (kBits - 1);  ///< rounds
constexpr int kPixelLanes = 4;  ///< a pixel's channels, and one that is not used
constexpr int kTaps = kLanes<std::int32_t> / kPixelLanes;

using Pixel = FourInts;

/// kTaps neighbouring pixels, each with the first channel of the next.
template <std::size_t... kLane>
[[gnu::always_inline]] inline Ints pixels_at(const std::uint8_t* from, std::index_sequence<kLane...>) {
  Bytes16 bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  return upcast(__builtin_shufflevector(
      bytes, bytes, (static_cast<int>(kLane / kPixelLanes * 3 + kLane % kPixelLanes) % 16)...));
}

/// Adds the pixels of all taps.
template <int kCount>
[[gnu::always_inline]] inline Pixel fold(Vec<std::int32_t, kCount> v) {
  if constexpr (kCount == kPixelLanes) {
    return v;
  } else {
    constexpr auto kLower = std::make_index_sequence<kCount / 2>{};
    return fold<kCount / 2>(half<std::int32_t, kCount, 0>(v, kLower) +
                            half<std::int32_t, kCount, kCount / 2>(v, kLower));
  }
}

/// Rows y ... y + kRows - 1, which share the loads of the weights.
template <int kRows>
[[gnu::always_inline]] inline void columns_of(ConstRows from, MutableRows to, int y, int width, int taps,
                                              const int* begins, const std::int32_t* lanes) {
  constexpr auto kAll = std::make_index_sequence<16>{};
  for (int x = 0; x < width; ++x) {
    const std::ptrdiff_t begin = std::ptrdiff_t{3} * begins[x];
    Ints sums[kRows] = {};
    for (int k = 0; k < taps; k += kTaps, lanes += kLanes<std::int32_t>) {
      const Ints weights = load<std::int32_t>(lanes);
      for (int r = 0; r < kRows; ++r)
        sums[r] += weights * pixels_at(from.row(y + r) + begin + std::ptrdiff_t{3} * k, kAll);
    }
    for (int r = 0; r < kRows; ++r) {
      const std::uint32_t bytes = four_bytes((fold<kLanes<std::int32_t>>(sums[r]) + kHalf) >> kBits);
      __builtin_memcpy(to.row(y + r) + std::ptrdiff_t{3} * x, &bytes, 3);
    }
  }
}

/// kVectors vectors of bytes of one row.
template <int kVectors>
[[gnu::always_inline]] inline void row_block(const std::uint8_t* from, std::ptrdiff_t row_bytes, int taps,
                                             const std::int32_t* weights, std::uint8_t* to) {
  constexpr std::ptrdiff_t kStep = kLanes<std::int32_t>;
  Ints sums[kVectors];
  for (Ints& sum : sums) sum = splat<std::int32_t>(kHalf);
  for (int k = 0; k < taps; ++k, from += row_bytes) {
    for (int v = 0; v < kVectors; ++v) sums[v] += weights[k] * load_bytes(from + v * kStep);
  }
  for (int v = 0; v < kVectors; ++v) store_bytes(to + v * kStep, sums[v] >> kBits);
}

}  // namespace

template <class Backend>
int ResizeKernels<Backend>::taps_at_once() {
  return kTaps;
}

template <class Backend>
void ResizeKernels<Backend>::columns(ConstRows from, MutableRows to, int height, int width, int taps,
                                     const int* begins, const std::int32_t* lanes) {
  constexpr int kRows = 4;
  int y = 0;
  for (; y + kRows <= height; y += kRows) columns_of<kRows>(from, to, y, width, taps, begins, lanes);
  for (; y < height; ++y) columns_of<1>(from, to, y, width, taps, begins, lanes);
}

// A row is written beyond its end, into the next one, which follows, or the slack.
template <class Backend>
void ResizeKernels<Backend>::rows(ConstRows from, MutableRows to, int height, int taps, const int* begins,
                                  const std::int32_t* weights) {
  constexpr int kVectors = 4;
  constexpr std::ptrdiff_t kStep = kLanes<std::int32_t>;
  for (int y = 0; y < height; ++y, weights += taps) {
    const std::uint8_t* first = from.row(begins[y]);
    std::ptrdiff_t i = 0;
    for (; i + kVectors * kStep <= to.row_bytes; i += kVectors * kStep)
      row_block<kVectors>(first + i, from.row_bytes, taps, weights, to.row(y) + i);
    for (; i < to.row_bytes; i += kStep)
      row_block<1>(first + i, from.row_bytes, taps, weights, to.row(y) + i);
  }
}

template struct ResizeKernels<cpu::MOH_ISA>;

}  // namespace moh
