#include "ops/conv/lanes_cpu.h"
#include "ops/conv/winograd_kernels.h"
#include "ops/cpu/reduce.h"

namespace moh {
namespace {

/// Outputs of a tile's side, taps of the kernel's side, and pixels that a tile reads on a side.
constexpr int kTile = 2, kTaps = 3, kReads = 4;
/// Weights of a kernel.
constexpr std::int64_t kWeights = 9;

// The transforms along one axis, for the points 0, 1, -1 and infinity.
struct InputTransform {  // B^T
  static constexpr int kFrom = kReads, kTo = kReads;
  template <class V>
  [[gnu::always_inline]] static void apply(const V (&d)[kFrom], V (&to)[kTo]) {
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
  }
};
struct OutputTransform {  // A^T
  static constexpr int kFrom = kReads, kTo = kTile;
  template <class V>
  [[gnu::always_inline]] static void apply(const V (&m)[kFrom], V (&to)[kTo]) {
    to[0] = m[0] + m[1] + m[2];
    to[1] = m[1] - m[2] - m[3];
  }
};
struct OutputGradientTransform {  // A
  static constexpr int kFrom = kTile, kTo = kReads;
  template <class V>
  [[gnu::always_inline]] static void apply(const V (&d)[kFrom], V (&to)[kTo]) {
    to[0] = d[0];
    to[1] = d[0] + d[1];
    to[2] = d[0] - d[1];
    to[3] = -d[1];
  }
};
struct WeightTransform {  // G
  static constexpr int kFrom = kTaps, kTo = kReads;
  template <class V>
  [[gnu::always_inline]] static void apply(const V (&w)[kFrom], V (&to)[kTo]) {
    const V ends = w[0] + w[2];
    to[0] = w[0];
    to[1] = (ends + w[1]) / 2;
    to[2] = (ends - w[1]) / 2;
    to[3] = w[2];
  }
};
struct WeightGradientTransform {  // G^T
  static constexpr int kFrom = kReads, kTo = kTaps;
  template <class V>
  [[gnu::always_inline]] static void apply(const V (&g)[kFrom], V (&to)[kTo]) {
    const V ends = (g[1] + g[2]) / 2;
    to[0] = g[0] + ends;
    to[1] = (g[1] - g[2]) / 2;
    to[2] = ends + g[3];
  }
};

/// A square of vectors.
template <class V, int kSide>
using Square = V[kSide][kSide];

/// Transforms a square along both axes.
template <class Transform, class V>
[[gnu::always_inline]] inline void transform(const Square<V, Transform::kFrom>& from,
                                             Square<V, Transform::kTo>& to) {
  constexpr int kFrom = Transform::kFrom, kTo = Transform::kTo;
  V half[kTo][kFrom];
#pragma GCC unroll 4
  for (int j = 0; j < kFrom; ++j) {
    V column[kFrom], result[kTo];
#pragma GCC unroll 4
    for (int i = 0; i < kFrom; ++i) column[i] = from[i][j];
    Transform::apply(column, result);
#pragma GCC unroll 4
    for (int i = 0; i < kTo; ++i) half[i][j] = result[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTo; ++i) Transform::apply(half[i], to[i]);
}

/// Positions [first, last) of a side of a square that are inside an image.
struct Inside {
  std::int64_t first, last;

  bool has(int i) const { return i >= first && i < last; }
  bool has_all(int side) const { return first == 0 && last >= side; }
};
inline Inside inside_from(std::int64_t start, std::int64_t pixels) {
  return {start < 0 ? -start : 0, pixels - start};
}

/// A square of pixels of an image, of which only those inside are there.
template <class T>
struct Patch {
  T* corner;
  std::int64_t row, pixel;  // elements from one to the next
  Inside rows, columns;

  T* at(int i, int j) const { return corner + i * row + j * pixel; }
};
/// The square of an image [height, width, channels] whose corner is at (y, x).
template <class T>
Patch<T> patch_at(T* image, std::int64_t height, std::int64_t width, std::int64_t channels, std::int64_t y,
                  std::int64_t x) {
  return {image + (y * width + x) * channels, width * channels, channels, inside_from(y, height),
          inside_from(x, width)};
}

/// Vectors of the channels of a square of pixels, zeros outside.
template <int kSide, class T>
[[gnu::always_inline]] inline void load_square(const Patch<const T>& patch, bool whole, std::int64_t c,
                                               Lanes<T, 1> lanes, Square<Vec<Acc<T>>, kSide>& to) {
#pragma GCC unroll 4
  for (int i = 0; i < kSide; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kSide; ++j) {
      const bool there = whole || (patch.rows.has(i) && patch.columns.has(j));
      to[i][j] = there ? lanes.get(patch.at(i, j) + c, 0) : Vec<Acc<T>>{};
    }
  }
}

/// v [points][channels] = the transformed pixels of a patch; points are `distance` apart.
template <class Transform, class T>
void transform_patch(const Patch<const T>& patch, std::int64_t channels, Acc<T>* v, std::int64_t distance) {
  constexpr int kSide = Transform::kFrom;
  const bool whole = patch.rows.has_all(kSide) && patch.columns.has_all(kSide);
  each_lanes<T, 1>(channels, [&](std::int64_t c, Lanes<T, 1> lanes) {
    Square<Vec<Acc<T>>, kSide> pixels;
    Square<Vec<Acc<T>>, kReads> points;
    if (whole) {
      load_square<kSide>(patch, true, c, lanes, pixels);
    } else {
      load_square<kSide>(patch, false, c, lanes, pixels);
    }
    transform<Transform>(pixels, points);
#pragma GCC unroll 16
    for (int p = 0; p < kWinogradPoints; ++p)
      Lanes<Acc<T>, 1>{lanes.count}.put(v + p * distance + c, 0, points[p / kReads][p % kReads]);
  });
}

/// Where a tile is: its image and its first output.
struct TilePlace {
  std::int64_t image, y, x;
};
inline TilePlace place_of(const ConvShape& s, std::int64_t tile) {
  const std::int64_t across = (s.x.output + 1) / kTile, down = (s.y.output + 1) / kTile;
  return {tile / across / down, tile / across % down * kTile, tile % across * kTile};
}
template <class T>
Patch<T> outputs_of(T* y, const ConvShape& s, const TilePlace& at) {
  return patch_at(y + at.image * s.y.output * s.x.output * s.outputs, s.y.output, s.x.output, s.outputs, at.y,
                  at.x);
}

/// Calls body(tile, number of the tile among `tiles`) for all tiles.
template <class Body>
void each_tile(WinogradTiles tiles, std::int64_t channels, const Body& body) {
  parallel_for(tiles.count(), row_grain(tiles.count(), channels * kWinogradPoints),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) body(tiles.first + i, i);
               });
}

/// Transforms the vectors of `rows` rows of [kFrom x kFrom, width] to [kTo x kTo, width]. Vector p of row n
/// is at n * from_row + p * from_step.
struct Strides {
  std::int64_t row, step;
};
template <class Transform, class A>
void transform_rows(const A* from, Strides of_from, A* to, Strides of_to, std::int64_t rows,
                    std::int64_t width) {
  constexpr int kFrom = Transform::kFrom, kTo = Transform::kTo;
  parallel_for(rows, row_grain(rows, width * kWinogradPoints), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      each_lanes<A, 1>(width, [=](std::int64_t c, Lanes<A, 1> lanes) {
        Square<Vec<A>, kFrom> square;
        Square<Vec<A>, kTo> result;
        const A* const source = from + n * of_from.row + c;
        A* const target = to + n * of_to.row + c;
#pragma GCC unroll 16
        for (int p = 0; p < kFrom * kFrom; ++p)
          square[p / kFrom][p % kFrom] = lanes.get(source + p * of_from.step, 0);
        transform<Transform>(square, result);
#pragma GCC unroll 16
        for (int p = 0; p < kTo * kTo; ++p) lanes.put(target + p * of_to.step, 0, result[p / kTo][p % kTo]);
      });
    }
  });
}

}  // namespace

template <class Backend, class T>
void WinogradKernels<Backend, T>::input(const T* x, Acc<T>* v, const ConvShape& s, WinogradTiles tiles) {
  const std::int64_t distance = winograd_distance(tiles.count(), s.channels);
  each_tile(tiles, s.channels, [=, &s](std::int64_t tile, std::int64_t i) {
    const TilePlace at = place_of(s, tile);
    transform_patch<InputTransform>(patch_at(x + at.image * s.y.input * s.x.input * s.channels, s.y.input,
                                             s.x.input, s.channels, at.y - s.y.padding, at.x - s.x.padding),
                                    s.channels, v + i * s.channels, distance);
  });
}

template <class Backend, class T>
void WinogradKernels<Backend, T>::output_gradient(const T* dy, Acc<T>* d, const ConvShape& s,
                                                  WinogradTiles tiles) {
  const std::int64_t distance = winograd_distance(tiles.count(), s.outputs);
  each_tile(tiles, s.outputs, [=, &s](std::int64_t tile, std::int64_t i) {
    transform_patch<OutputGradientTransform>(outputs_of(dy, s, place_of(s, tile)), s.outputs,
                                             d + i * s.outputs, distance);
  });
}

template <class Backend, class T>
void WinogradKernels<Backend, T>::output(const Acc<T>* m, const T* b, T* y, const ConvShape& s,
                                         WinogradTiles tiles) {
  const std::int64_t distance = winograd_distance(tiles.count(), s.outputs);
  each_tile(tiles, s.outputs, [=, &s](std::int64_t tile, std::int64_t i) {
    const Patch<T> patch = outputs_of(y, s, place_of(s, tile));
    const Acc<T>* const points = m + i * s.outputs;
    each_lanes<T, 1>(s.outputs, [&](std::int64_t c, Lanes<T, 1> lanes) {
      Square<Vec<Acc<T>>, kReads> square;
      Square<Vec<Acc<T>>, kTile> sums;
#pragma GCC unroll 16
      for (int p = 0; p < kWinogradPoints; ++p)
        square[p / kReads][p % kReads] = Lanes<Acc<T>, 1>{lanes.count}.get(points + p * distance + c, 0);
      transform<OutputTransform>(square, sums);
      const Vec<Acc<T>> bias = b != nullptr ? lanes.get(b + c, 0) : Vec<Acc<T>>{};
      for (int q = 0; q < kTile * kTile; ++q) {
        const int row = q / kTile, column = q % kTile;
        if (patch.rows.has(row) && patch.columns.has(column))
          lanes.put(patch.at(row, column) + c, 0, sums[row][column] + bias);
      }
    });
  });
}

template <class Backend, class T>
void WinogradKernels<Backend, T>::weights(const Acc<T>* w, Acc<T>* u, std::int64_t rows, std::int64_t width) {
  transform_rows<WeightTransform>(w, {kWeights * width, width}, u, {width, rows * width}, rows, width);
}

template <class Backend, class T>
void WinogradKernels<Backend, T>::weight_gradient(const Acc<T>* g, Acc<T>* dw, std::int64_t rows,
                                                  std::int64_t width) {
  transform_rows<WeightGradientTransform>(g, {width, rows * width}, dw, {kWeights * width, width}, rows,
                                          width);
}

template struct WinogradKernels<cpu::MOH_ISA, float>;
template struct WinogradKernels<cpu::MOH_ISA, bfloat16>;

}  // namespace moh
