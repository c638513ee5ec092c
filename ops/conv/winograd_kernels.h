#pragma once

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/conv/conv_shape.h"

namespace moh {

/// Points at which a tile is evaluated: its elements once transformed.
inline constexpr std::int64_t kWinogradPoints = 16;

/// Tiles of 2 x 2 outputs of all images, numbered row by row.
struct WinogradTiles {
  std::int64_t first, last;

  constexpr std::int64_t count() const { return last - first; }
};
constexpr std::int64_t winograd_tiles(const ConvShape& s) {
  return s.batch * ((s.y.output + 1) / 2) * ((s.x.output + 1) / 2);
}
/// Elements from the matrix [tiles, width] of one point to that of the next: with a cache line between them,
/// so that those of a tile do not fall into one set of L1.
constexpr std::int64_t winograd_distance(std::int64_t tiles, std::int64_t width) {
  return tiles * width + 16;
}

/// Transforms of F(2 x 2, 3 x 3) (Lavin and Gray 2015, arXiv 1509.09308), on the CPU, for a shape of one
/// group with 3 x 3 taps and stride 1:
///   y = A^T [(G w G^T) . (B^T x B)] A   for each tile, summed over channels before the outer transform,
///   dw = G^T [(A dy A^T) . (B^T x B)] G   summed over tiles,
/// where . multiplies element by element, so that a sum of products is a matrix multiplication for each
/// point. Transformed tiles are kWinogradPoints matrices, winograd_distance elements from one to the next.
template <class Backend, class T>
struct WinogradKernels {
  /// v [tiles, channels] = B^T x B, of the 4 x 4 pixels that each tile reads.
  static void input(const T* x, Acc<T>* v, const ConvShape& shape, WinogradTiles tiles);
  /// d [tiles, outputs] = A dy A^T.
  static void output_gradient(const T* dy, Acc<T>* d, const ConvShape& shape, WinogradTiles tiles);
  /// y = b + A^T m A, from m [tiles, outputs]; b may be null.
  static void output(const Acc<T>* m, const T* b, T* y, const ConvShape& shape, WinogradTiles tiles);
  /// u [kWinogradPoints, rows, width] = G w G^T, from w [rows, 9, width].
  static void weights(const Acc<T>* w, Acc<T>* u, std::int64_t rows, std::int64_t width);
  /// dw [rows, 9, width] = G^T g G, from g [kWinogradPoints, rows, width].
  static void weight_gradient(const Acc<T>* g, Acc<T>* dw, std::int64_t rows, std::int64_t width);
};

}  // namespace moh
