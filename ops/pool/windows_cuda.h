#pragma once

// For kernel files (*_cuda.cu) only: a thread computes 16 bytes of channels (a piece) of a pixel of an image.

#include <cmath>

#include "ops/cuda/divide.h"
#include "ops/cuda/rows.h"

namespace moh {

/// Piece `piece` of row `row` of an image of rows: number i counts pieces, then columns, then rows.
struct ImagePlace {
  std::int64_t image, y, x, first;

  MOH_DEVICE static ImagePlace of(std::int64_t i, std::int64_t pieces, std::int64_t width,
                                  std::int64_t height, int pack) {
    const Division piece = divide(i, pieces), column = divide(piece.quotient, width),
                   row = divide(column.quotient, height);
    return {row.quotient, row.rest, column.rest, piece.rest * pack};
  }
};

/// Pieces of the channels of a pixel.
template <class T>
std::int64_t pieces_of(std::int64_t channels) {
  return (channels + Pack<T>::kCount - 1) / Pack<T>::kCount;
}

/// The pixels [begin, end) of a window on an axis, of which the ops take fewer than 2^31: as int, since loops
/// over 64 bits spilled registers.
struct PixelRange {
  int begin, end;

  template <class Axis>
  MOH_DEVICE static PixelRange of(const Axis& axis, std::int64_t window) {
    return {static_cast<int>(axis.first(window)), static_cast<int>(axis.last(window))};
  }
  MOH_DEVICE int count() const { return end - begin; }
};

enum class OfWindow { kMax, kMean };

/// A piece of a window: its maximum, or its mean. The axes of the shape have the pixels [first(i), last(i))
/// of window i.
template <OfWindow kOf, class T, class Shape>
struct PoolWindow {
  RowAccess<const T> x;
  RowAccess<T> y;
  Shape shape;
  std::int64_t pieces;

  MOH_DEVICE void operator()(std::int64_t i) const {
    constexpr int kPack = Pack<T>::kCount;
    const auto &on_y = shape.y, &on_x = shape.x;
    const ImagePlace cell = ImagePlace::of(i, pieces, on_x.cells, on_y.cells, kPack);
    const PixelRange columns = PixelRange::of(on_x, cell.x), lines = PixelRange::of(on_y, cell.y);
    float made[kPack], values[kPack];
    for (int j = 0; j < kPack; ++j) made[j] = kOf == OfWindow::kMax ? -INFINITY : 0.0F;
    for (int py = lines.begin; py < lines.end; ++py) {
      const RowAccess<const T> row = x.at((cell.image * on_y.pixels + py) * on_x.pixels);
      for (int px = columns.begin; px < columns.end; ++px) {
        row.at(px).load(cell.first, values);
        for (int j = 0; j < kPack; ++j) made[j] = added(made[j], values[j]);
      }
    }
    if constexpr (kOf == OfWindow::kMean) {
      const float share = 1.0F / static_cast<float>(std::int64_t{lines.count()} * columns.count());
      for (int j = 0; j < kPack; ++j) made[j] *= share;
    }
    y.at((cell.image * on_y.cells + cell.y) * on_x.cells + cell.x).store(cell.first, made);
  }

  MOH_DEVICE static float added(float made, float value) {
    if constexpr (kOf == OfWindow::kMean) return made + value;
    return value > made || value != value ? value : made;  // a NaN differs from itself
  }
};

/// The windows of x, for cuda::launch_each with their number of pieces.
template <OfWindow kOf, class T, class Shape>
PoolWindow<kOf, T, Shape> pool_windows(const T* x, T* y, const Shape& s) {
  return {rows_at(x, s.channels), rows_at(y, s.channels), s, pieces_of<T>(s.channels)};
}
template <class T, class Shape>
std::int64_t window_pieces(const Shape& s) {
  return s.batch * s.y.cells * s.x.cells * pieces_of<T>(s.channels);
}

}  // namespace moh
