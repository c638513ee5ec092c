#pragma once

#include <cstddef>
#include <cstdint>

namespace moh {

/// Rows of 8-bit RGB pixels of which `Picture::kSlack` bytes behind the last may be read and overwritten.
struct ConstRows {
  const std::uint8_t* data;
  std::ptrdiff_t row_bytes;
  const std::uint8_t* row(std::ptrdiff_t y) const { return data + y * row_bytes; }
};
struct MutableRows {
  std::uint8_t* data;
  std::ptrdiff_t row_bytes;
  std::uint8_t* row(std::ptrdiff_t y) const { return data + y * row_bytes; }
};

/// Weighted sums of pixels in fixed point (ResampleWeights): exact integers, so equal for every back end.
template <class Backend>
struct ResizeKernels {
  /// Weights of a pixel that columns() takes at once.
  static int taps_at_once();
  /// to[y][x] = sum over k < taps of lanes[x][k] * from[y][begins[x] + k]. `taps` is a multiple of
  /// taps_at_once(); lanes[x][k] is the weight for the three channels, and 0.
  static void columns(ConstRows from, MutableRows to, int height, int width, int taps, const int* begins,
                      const std::int32_t* lanes);
  /// to[y][i] = sum over k < taps of weights[y][k] * from[begins[y] + k][i], for bytes i of a row.
  static void rows(ConstRows from, MutableRows to, int height, int taps, const int* begins,
                   const std::int32_t* weights);
};

}  // namespace moh
