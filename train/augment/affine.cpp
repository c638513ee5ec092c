#include "train/augment/affine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <vector>

#include "core/visit_cpu_isa.h"
#include "train/augment/affine_kernels.h"

namespace moh {

namespace {

void fill_pixels(std::uint8_t* to, int count, Rgb color) {
  for (int i = 0; i < count; ++i, to += Picture::kChannels) std::copy(color.begin(), color.end(), to);
}

/// Rounded to 15 decimals, as by Python's round(): Pillow rounds so before it rotates.
double rounded_to_15_decimals(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15f", value);
  return std::strtod(text, nullptr);
}

Picture half_turn(const Picture& picture) {
  Picture turned(picture.size());
  for (int y = 0; y < picture.height(); ++y) {
    const std::uint8_t* from = picture.row(picture.height() - 1 - y) + picture.row_bytes();
    for (std::uint8_t* to = turned.row(y); to < turned.row(y) + picture.row_bytes();
         to += Picture::kChannels) {
      from -= Picture::kChannels;
      std::copy_n(from, Picture::kChannels, to);
    }
  }
  return turned;
}

/// By 90 degrees counter-clockwise, of a square.
Picture quarter_turn(const Picture& picture) {
  Picture turned(picture.size());
  const int side = picture.width();
  for (int y = 0; y < side; ++y) {
    const std::ptrdiff_t column = std::ptrdiff_t{Picture::kChannels} * (side - 1 - y);
    std::uint8_t* to = turned.row(y);
    for (int x = 0; x < side; ++x) to = std::copy_n(picture.row(x) + column, Picture::kChannels, to);
  }
  return turned;
}

}  // namespace

Picture transform(const Picture& picture, const AffineMap& m, Rgb fill) {
  Picture result(picture.size());
  const int width = picture.width(), height = picture.height();
  std::vector<double> x(static_cast<std::size_t>(width)), y(x.size());
  for (int row = 0; row < height; ++row) {
    const double v = row + 0.5;
    // The pixels from within are neighbours: the source is convex, and the map affine.
    int begin = width, count = 0;
    for (int column = 0; column < width; ++column) {
      const double u = column + 0.5;
      const double from_x = m[0] * u + m[1] * v + m[2], from_y = m[3] * u + m[4] * v + m[5];
      if (from_x < 0 || from_x >= width || from_y < 0 || from_y >= height) continue;
      if (count == 0) begin = column;
      x[static_cast<std::size_t>(count)] = from_x;
      y[static_cast<std::size_t>(count++)] = from_y;
    }
    std::uint8_t* to = result.row(row);
    fill_pixels(to, begin, fill);
    visit_cpu_isa([&]<class Backend>() {
      AffineKernels<Backend>::bicubic(picture.row(0), static_cast<std::ptrdiff_t>(picture.row_bytes()), width,
                                      height, x.data(), y.data(), count, to + std::ptrdiff_t{3} * begin);
    });
    fill_pixels(to + std::ptrdiff_t{3} * (begin + count), width - begin - count, fill);
  }
  return result;
}

Picture rotate(const Picture& picture, double degrees, Rgb fill) {
  degrees = std::fmod(degrees, 360);
  if (degrees < 0) degrees += 360;
  const bool square = picture.width() == picture.height();
  if (degrees == 0) return picture.clone();
  if (degrees == 180) return half_turn(picture);
  if (degrees == 90 && square) return quarter_turn(picture);
  if (degrees == 270 && square) return half_turn(quarter_turn(picture));
  const double angle = -(degrees * (std::numbers::pi / 180));
  const double cosine = rounded_to_15_decimals(std::cos(angle)),
               sine = rounded_to_15_decimals(std::sin(angle)),
               back = rounded_to_15_decimals(-std::sin(angle));
  const double x = picture.width() / 2.0, y = picture.height() / 2.0;
  return transform(
      picture, {cosine, sine, cosine * -x + sine * -y + 0 + x, back, cosine, back * -x + cosine * -y + 0 + y},
      fill);
}

Picture shear_x(const Picture& picture, double factor, Rgb fill) {
  return transform(picture, {1, factor, 0, 0, 1, 0}, fill);
}

Picture shear_y(const Picture& picture, double factor, Rgb fill) {
  return transform(picture, {1, 0, 0, factor, 1, 0}, fill);
}

Picture translate_x(const Picture& picture, double share, Rgb fill) {
  return transform(picture, {1, 0, share * picture.width(), 0, 1, 0}, fill);
}

Picture translate_y(const Picture& picture, double share, Rgb fill) {
  return transform(picture, {1, 0, 0, 0, 1, share * picture.height()}, fill);
}

}  // namespace moh
