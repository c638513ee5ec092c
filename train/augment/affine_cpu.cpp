#include <cmath>

#include "core/cpu_isa.h"
#include "train/augment/affine_kernels.h"
#include "train/augment/byte_lanes.h"

namespace moh {

namespace {

using Quad = Vec<double, 4>;  ///< the channels of a pixel, and one that is not used

// Results by reference: where a register is shorter than a Quad, one cannot be returned.

[[gnu::always_inline]] inline void as_doubles(FourInts v, Quad& to) {
#if defined(__AVX__)
  to = _mm256_cvtepi32_pd((__m128i)v);
#else
  to = __builtin_convertvector(v, Quad);
#endif
}

/// The cubic through four samples at -1, 0, 1, 2, in powers of the place. Its coefficients of pixels are
/// integers, exact as such and as doubles.
template <class V>
struct Cubic {
  V constant, linear, square, cube;

  [[gnu::always_inline]] Cubic(const V& a, const V& b, const V& c, const V& d)
      : constant(b), linear(c - a), square((a - b) + (a - b) + c - d), cube(b - a - c + d) {}
};

[[gnu::always_inline]] inline void value_at(double at, const Quad& constant, const Quad& linear,
                                            const Quad& square, const Quad& cube, Quad& value) {
  value = constant + at * (linear + at * (square + at * cube));
}

/// Sets `value` to the cubic interpolation of four pixels in a line.
[[gnu::always_inline]] inline void line_value(const std::uint8_t* a, const std::uint8_t* b,
                                              const std::uint8_t* c, const std::uint8_t* d, double at,
                                              Quad& value) {
  const Cubic<FourInts> cubic(load_four_bytes(a), load_four_bytes(b), load_four_bytes(c), load_four_bytes(d));
  Quad constant, linear, square, cube;
  as_doubles(cubic.constant, constant);
  as_doubles(cubic.linear, linear);
  as_doubles(cubic.square, square);
  as_doubles(cubic.cube, cube);
  value_at(at, constant, linear, square, cube, value);
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
    std::ptrdiff_t columns[4], lines[4];
    if (left >= 0 && top >= 0 && left + 3 < width && top + 3 < height) {
      for (int k = 0; k < 4; ++k)
        columns[k] = std::ptrdiff_t{3} * (left + k), lines[k] = (top + k) * row_bytes;
    } else {
      for (int k = 0; k < 4; ++k) {
        columns[k] = std::ptrdiff_t{3} * clamped(left + k, width);
        lines[k] = clamped(top + k, height) * row_bytes;
      }
    }
    Quad value;
    // At a whole pixel of one direction the cubic is that pixel, exactly: so it is in all of a sheared or
    // moved picture.
    if (dy == 0) {
      const std::uint8_t* row = from + lines[1];
      line_value(row + columns[0], row + columns[1], row + columns[2], row + columns[3], dx, value);
    } else if (dx == 0) {
      const std::uint8_t* column = from + columns[1];
      line_value(column + lines[0], column + lines[1], column + lines[2], column + lines[3], dy, value);
    } else {
      Quad rows[4];
      for (int k = 0; k < 4; ++k) {
        const std::uint8_t* row = from + lines[k];
        line_value(row + columns[0], row + columns[1], row + columns[2], row + columns[3], dx, rows[k]);
      }
      const Cubic<Quad> cubic(rows[0], rows[1], rows[2], rows[3]);
      value_at(dy, cubic.constant, cubic.linear, cubic.square, cubic.cube, value);
    }
    const Quad low = {}, high = low + 255.0;
    value = value > low ? value : low;
    value = value < high ? value : high;
    const std::uint32_t bytes = four_bytes(__builtin_convertvector(value, FourInts));
    __builtin_memcpy(to, &bytes, 3);
  }
}

template struct AffineKernels<cpu::MOH_ISA>;

}  // namespace moh
