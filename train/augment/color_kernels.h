#pragma once

#include <cstddef>
#include <cstdint>

namespace moh {

template <class Backend>
struct ColorKernels {
  /// to[i] = from[i] + factor * (to[i] - from[i]) in single precision, cut off to an integer of 0 ... 255.
  static void blend(const std::uint8_t* from, std::uint8_t* to, std::ptrdiff_t count, float factor);
  /// (19595 R + 38470 G + 7471 B + 2^15) / 2^16 of each pixel.
  static void luminance(const std::uint8_t* rgb, std::ptrdiff_t pixels, std::uint8_t* to);
  /// The sum of 3 x 3 values, the one in the middle with weight 5, divided by 13 and rounded, for bytes
  /// [3, count - 3) of a row; neighbours in a row are 3 bytes apart.
  static void smooth(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below,
                     std::ptrdiff_t count, std::uint8_t* to);
};

}  // namespace moh
