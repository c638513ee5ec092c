#include "core/parallel.h"
#include "core/scratch.h"
#include "ops/pool/adaptive_avg_pool_kernels.h"
#include "ops/pool/windows_cpu.h"

namespace moh {

template <class Backend, class T>
void AdaptiveAvgPoolKernels<Backend, T>::forward(const T* x, T* y, const PoolShape& s) {
  using A = Acc<T>;
  over_windows(
      x, y, s, A(0), [](A sum, A value) { return sum + value; },
      [](A sum, A count) { return sum * (A(1) / count); });
}

template <class Backend, class T>
void AdaptiveAvgPoolKernels<Backend, T>::backward(const T* dy, T* dx, const PoolShape& s) {
  using A = Acc<T>;
  const std::int64_t channels = s.channels;
  parallel_for(s.batch * s.y.pixels, 1, [&](std::int64_t begin, std::int64_t end) {
    const Scratch scratch(static_cast<std::size_t>(channels) * sizeof(A));
    A* const sum = scratch.as<A>();
    for (std::int64_t pixel = begin * s.x.pixels; pixel < end * s.x.pixels; ++pixel) {
      const std::int64_t px = pixel % s.x.pixels, row = pixel / s.x.pixels, py = row % s.y.pixels;
      for (std::int64_t c = 0; c < channels; ++c) sum[c] = A(0);
      for (std::int64_t cy = s.y.first_over(py); cy < s.y.last_over(py); ++cy) {
        for (std::int64_t cx = s.x.first_over(px); cx < s.x.last_over(px); ++cx) {
          const T* from = dy + ((row / s.y.pixels * s.y.cells + cy) * s.x.cells + cx) * channels;
          const A share = A(1) / A(s.y.size(cy) * s.x.size(cx));
#pragma omp simd
          for (std::int64_t c = 0; c < channels; ++c) sum[c] += A(from[c]) * share;
        }
      }
      for (std::int64_t c = 0; c < channels; ++c) dx[pixel * channels + c] = sum[c];
    }
  });
}

template struct AdaptiveAvgPoolKernels<cpu::MOH_ISA, float>;
template struct AdaptiveAvgPoolKernels<cpu::MOH_ISA, bfloat16>;
template struct AdaptiveAvgPoolKernels<cpu::MOH_ISA, double>;

}  // namespace moh
