#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/pool/window_pool.h"

namespace moh {

/// The windows along one axis: window i covers the pixels [first(i), last(i)) inside the image.
struct WindowAxis {
  std::int64_t pixels = 1, cells = 1;
  std::int64_t window = 1, stride = 1, padding = 0;

  constexpr std::int64_t first(std::int64_t i) const {
    const std::int64_t begin = i * stride - padding;
    return begin < 0 ? 0 : begin;
  }
  constexpr std::int64_t last(std::int64_t i) const {
    const std::int64_t end = i * stride - padding + window;
    return end < pixels ? end : pixels;
  }
};

struct WindowPoolShape {
  std::int64_t batch = 0, channels = 0;
  WindowAxis y, x;
};

/// Kernels of window_pool; y is overwritten. x [batch, y.pixels, x.pixels, channels], y [batch, y.cells,
/// x.cells, channels].
template <class Backend, class T>
struct WindowPoolKernels {
  static void max(const T* x, T* y, const WindowPoolShape& shape);
  static void mean(const T* x, T* y, const WindowPoolShape& shape);
};

}  // namespace moh
