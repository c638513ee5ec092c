#include "ops/cuda/divide.h"
#include "ops/cuda/rows.h"
#include "ops/pool/adaptive_avg_pool_kernels.h"

// A thread computes 16 bytes of channels (a piece) of a cell, or of a pixel.

namespace moh {

namespace {

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

template <class T>
std::int64_t pieces_of(std::int64_t channels) {
  return (channels + Pack<T>::kCount - 1) / Pack<T>::kCount;
}

/// y of a cell: the average over its pixels.
template <class T>
struct AveragePixels {
  RowAccess<const T> x;
  RowAccess<T> y;
  PoolShape shape;
  std::int64_t pieces;

  MOH_DEVICE void operator()(std::int64_t i) const {
    constexpr int kPack = Pack<T>::kCount;
    const PoolAxis &on_y = shape.y, &on_x = shape.x;
    const ImagePlace cell = ImagePlace::of(i, pieces, on_x.cells, on_y.cells, kPack);
    const std::int64_t begin = on_x.first(cell.x), end = on_x.last(cell.x);
    float sum[kPack] = {}, values[kPack];
    for (std::int64_t py = on_y.first(cell.y); py < on_y.last(cell.y); ++py) {
      const RowAccess<const T> row = x.at((cell.image * on_y.pixels + py) * on_x.pixels);
      for (std::int64_t px = begin; px < end; ++px) {
        row.at(px).load(cell.first, values);
        for (int j = 0; j < kPack; ++j) sum[j] += values[j];
      }
    }
    const float share = 1.0F / static_cast<float>(on_y.size(cell.y) * (end - begin));
    for (int j = 0; j < kPack; ++j) sum[j] *= share;
    y.at((cell.image * on_y.cells + cell.y) * on_x.cells + cell.x).store(cell.first, sum);
  }
};

/// dx of a pixel: its share of the cells that cover it.
template <class T>
struct SpreadCells {
  RowAccess<const T> dy;
  RowAccess<T> dx;
  PoolShape shape;
  std::int64_t pieces;

  MOH_DEVICE void operator()(std::int64_t i) const {
    constexpr int kPack = Pack<T>::kCount;
    const PoolAxis &on_y = shape.y, &on_x = shape.x;
    const ImagePlace pixel = ImagePlace::of(i, pieces, on_x.pixels, on_y.pixels, kPack);
    float sum[kPack] = {}, values[kPack];
    for (std::int64_t cy = on_y.first_over(pixel.y); cy < on_y.last_over(pixel.y); ++cy) {
      const RowAccess<const T> row = dy.at((pixel.image * on_y.cells + cy) * on_x.cells);
      for (std::int64_t cx = on_x.first_over(pixel.x); cx < on_x.last_over(pixel.x); ++cx) {
        const float share = 1.0F / static_cast<float>(on_y.size(cy) * on_x.size(cx));
        row.at(cx).load(pixel.first, values);
        for (int j = 0; j < kPack; ++j) sum[j] += values[j] * share;
      }
    }
    dx.at((pixel.image * on_y.pixels + pixel.y) * on_x.pixels + pixel.x).store(pixel.first, sum);
  }
};

}  // namespace

template <class Backend, class T>
void AdaptiveAvgPoolKernels<Backend, T>::forward(const T* x, T* y, const PoolShape& s) {
  const std::int64_t pieces = pieces_of<T>(s.channels);
  cuda::launch_each("adaptive_avg_pool", s.batch * s.y.cells * s.x.cells * pieces,
                    AveragePixels<T>{rows_at(x, s.channels), rows_at(y, s.channels), s, pieces});
}

template <class Backend, class T>
void AdaptiveAvgPoolKernels<Backend, T>::backward(const T* dy, T* dx, const PoolShape& s) {
  const std::int64_t pieces = pieces_of<T>(s.channels);
  cuda::launch_each("adaptive_avg_pool_gradient", s.batch * s.y.pixels * s.x.pixels * pieces,
                    SpreadCells<T>{rows_at(dy, s.channels), rows_at(dx, s.channels), s, pieces});
}

template struct AdaptiveAvgPoolKernels<Cuda, float>;
template struct AdaptiveAvgPoolKernels<Cuda, bfloat16>;

}  // namespace moh
