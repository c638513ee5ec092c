#pragma once

#include <cstddef>
#include <cstdint>

namespace moh {

template <class Backend>
struct AffineKernels {
  /// One row of transform(): `count` pixels from the source places (x[i], y[i]), which lie within it. Reads
  /// up to Picture::kSlack bytes behind the source. Double precision in Pillow's order of operations, without
  /// fused multiply-adds: equal for every back end.
  static void bicubic(const std::uint8_t* from, std::ptrdiff_t row_bytes, int width, int height,
                      const double* x, const double* y, int count, std::uint8_t* to);
};

}  // namespace moh
