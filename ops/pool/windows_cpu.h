#pragma once

// For CPU kernels only.

#include <algorithm>
#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace moh {

namespace {

/// Fills y [batch, y.cells, x.cells, channels] with finish(value, number of pixels) of each window of x,
/// where value is what add(value, pixel) made of its pixels, beginning with `start`, channel by channel. The
/// axes of the shape have the pixels [first(i), last(i)) of window i.
template <class T, class Shape, class Add, class Finish>
void over_windows(const T* x, T* y, const Shape& s, Acc<T> start, const Add& add, const Finish& finish) {
  using A = Acc<T>;
  const std::int64_t channels = s.channels;
  parallel_for(s.batch * s.y.cells, 1, [&](std::int64_t begin, std::int64_t end) {
    const Scratch scratch(static_cast<std::size_t>(channels) * sizeof(A));
    A* const made = scratch.as<A>();
    for (std::int64_t i = begin * s.x.cells; i < end * s.x.cells; ++i) {
      const std::int64_t cx = i % s.x.cells, row = i / s.x.cells, cy = row % s.y.cells, b = row / s.y.cells;
      std::fill_n(made, channels, start);
      for (std::int64_t py = s.y.first(cy); py < s.y.last(cy); ++py) {
        for (std::int64_t px = s.x.first(cx); px < s.x.last(cx); ++px) {
          const T* from = x + ((b * s.y.pixels + py) * s.x.pixels + px) * channels;
#pragma omp simd
          for (std::int64_t c = 0; c < channels; ++c) made[c] = add(made[c], A(from[c]));
        }
      }
      const auto count = A((s.y.last(cy) - s.y.first(cy)) * (s.x.last(cx) - s.x.first(cx)));
      for (std::int64_t c = 0; c < channels; ++c) y[i * channels + c] = T(finish(made[c], count));
    }
  });
}

}  // namespace

}  // namespace moh
