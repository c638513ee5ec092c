#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"

namespace moh {

/// The cells of one axis: cell i covers pixels [first(i), last(i)).
struct PoolAxis {
  std::int64_t pixels = 1, cells = 1;

  constexpr std::int64_t first(std::int64_t cell) const { return cell * pixels / cells; }
  constexpr std::int64_t last(std::int64_t cell) const { return ((cell + 1) * pixels + cells - 1) / cells; }
  constexpr std::int64_t size(std::int64_t cell) const { return last(cell) - first(cell); }
  /// The cells that cover a pixel: [first_over, last_over).
  constexpr std::int64_t first_over(std::int64_t pixel) const { return pixel * cells / pixels; }
  constexpr std::int64_t last_over(std::int64_t pixel) const {
    return ((pixel + 1) * cells + pixels - 1) / pixels;
  }
};

struct PoolShape {
  std::int64_t batch = 0, channels = 0;
  PoolAxis y, x;
};

/// Kernels of adaptive_avg_pool; outputs are overwritten. x, dx [batch, y.pixels, x.pixels, channels], y, dy
/// [batch, y.cells, x.cells, channels].
template <class Backend, class T>
struct AdaptiveAvgPoolKernels {
  static void forward(const T* x, T* y, const PoolShape& shape);
  static void backward(const T* dy, T* dx, const PoolShape& shape);
};

}  // namespace moh
