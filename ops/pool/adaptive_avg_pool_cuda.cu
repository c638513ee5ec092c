#include "ops/pool/adaptive_avg_pool_kernels.h"
#include "ops/pool/windows_cuda.h"

namespace moh {

namespace {

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
  cuda::launch_each("adaptive_avg_pool", window_pieces<T>(s), pool_windows<OfWindow::kMean>(x, y, s));
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
