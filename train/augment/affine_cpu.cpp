#include <cmath>

#include "core/cpu_isa.h"
#include "ops/cpu/simd.h"
#include "train/augment/affine_kernels.h"

namespace moh {

namespace {

using Quad = Vec<double, 4>;  ///< the channels of a pixel, and one that is not used
using FourBytes = Vec<std::uint8_t, 4>;
using FourInts = Vec<std::int32_t, 4>;

// Results by reference: where a register is shorter than a Quad, one cannot be returned.

[[gnu::always_inline]] inline void load_pixel(const std::uint8_t* from, Quad& pixel) {
  FourBytes bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  pixel = __builtin_convertvector(__builtin_convertvector(bytes, FourInts), Quad);
}

/// The cubic through four samples at -1, 0, 1, 2 at the place `at`, 0 <= at < 1.
[[gnu::always_inline]] inline void cubic(const Quad (&s)[4], double at, Quad& value) {
  const Quad linear = s[2] - s[0], square = 2.0 * (s[0] - s[1]) + s[2] - s[3],
             cube = s[1] - s[0] - s[2] + s[3];
  value = s[1] + at * (linear + at * (square + at * cube));
}

[[gnu::always_inline]] inline int clamped(int i, int size) {
  return i < 0 ? 0 : i < size ? i : size - 1;
}

}  // namespace

template <class Backend>
void AffineKernels<Backend>::bicubic(const std::uint8_t* from, std::ptrdiff_t row_bytes, int width,
                                     int height, const double* x, const double* y, int count,
                                     std::uint8_t* to) {
  for (int i = 0; i < count; ++i, to += 3) {
    const double px = x[i] - 0.5, py = y[i] - 0.5;
    const double fx = std::floor(px), fy = std::floor(py);
    const double dx = px - fx, dy = py - fy;
    const int left = static_cast<int>(fx) - 1, top = static_cast<int>(fy) - 1;
    std::ptrdiff_t columns[4];
    for (int k = 0; k < 4; ++k) columns[k] = std::ptrdiff_t{3} * clamped(left + k, width);
    Quad rows[4];
    for (int k = 0; k < 4; ++k) {
      const std::uint8_t* row = from + clamped(top + k, height) * row_bytes;
      Quad pixels[4];
      for (int j = 0; j < 4; ++j) load_pixel(row + columns[j], pixels[j]);
      cubic(pixels, dx, rows[k]);
    }
    Quad value;
    cubic(rows, dy, value);
    const Quad low = {}, high = low + 255.0;
    value = value > low ? value : low;
    value = value < high ? value : high;
    const FourBytes bytes = __builtin_convertvector(__builtin_convertvector(value, FourInts), FourBytes);
    __builtin_memcpy(to, &bytes, 3);
  }
}

template struct AffineKernels<cpu::MOH_ISA>;

}  // namespace moh
