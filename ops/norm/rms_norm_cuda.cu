#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/norm/rms_norm_kernels.h"

namespace moh {

namespace {

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void rms_norm_kernel(RowAccess<const T> x, RowAccess<const T> w, RowAccess<T> y, float* r, float eps) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), width = x.width;
  const RowAccess<const T> from = x.at(i);
  float squares = 0;
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack];
    from.load(first, values);
    for (int j = 0; j < kPack; ++j) squares += values[j] * values[j];
  });
  squares = reduce_block(squares, Sum{}, device::shared_memory<ReduceSpace<float>>()->values);
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(width) + eps);
  if (device::thread_x() == 0) r[i] = scale;
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack], weights[kPack];
    from.load(first, values);
    w.load(first, weights);
    for (int j = 0; j < kPack; ++j) values[j] = values[j] * scale * weights[j];
    y.at(i).store(first, values);
  });
}

/// What the backward pass reads and writes; partials [blocks, width].
template <class T>
struct RmsNormGradient {
  RowAccess<const T> dy, x, w;
  const float* r;
  RowAccess<T> dx;
  float* partials;
  std::int64_t rows;
};

/// A block takes every blocks-th row. Its share of dw lies in shared memory, behind the space for reductions;
/// each element belongs to one thread.
template <class T>
MOH_KERNEL(kMostRowThreads)
void rms_norm_gradient_kernel(RmsNormGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t width = g.x.width;
  auto* space = device::shared_memory<ReduceSpace<float>>();
  auto* dw = reinterpret_cast<float*>(space + 1);
  each_piece<T>(width, [&](std::int64_t first) {
    for (int j = 0; j < kPack; ++j) dw[first + j] = 0;
  });
  for (std::int64_t i = device::block_x(); i < g.rows; i += device::blocks_x()) {
    const float r = g.r[i];
    float s = 0;
    each_piece<T>(width, [&](std::int64_t first) {
      float x[kPack], dy[kPack], w[kPack];
      g.x.at(i).load(first, x);
      g.dy.at(i).load(first, dy);
      g.w.load(first, w);
      for (int j = 0; j < kPack; ++j) {
        s += dy[j] * w[j] * x[j];
        dw[first + j] += dy[j] * x[j] * r;
      }
    });
    const float shrink = r * r * reduce_block(s, Sum{}, space->values) / static_cast<float>(width);
    each_piece<T>(width, [&](std::int64_t first) {
      float x[kPack], dy[kPack], w[kPack];
      g.x.at(i).load(first, x);
      g.dy.at(i).load(first, dy);
      g.w.load(first, w);
      for (int j = 0; j < kPack; ++j) x[j] = r * (dy[j] * w[j] - x[j] * shrink);
      g.dx.at(i).store(first, x);
    });
    device::sync_block();  // before the next row writes into the space
  }
  each_piece<T>(width, [&](std::int64_t first) {
    for (int j = 0; j < kPack && first + j < width; ++j)
      g.partials[device::block_x() * width + first + j] = dw[first + j];
  });
}

}  // namespace

template <class Backend, class T>
void RmsNormKernels<Backend, T>::forward(const T* x, const T* w, T* y, Acc<T>* r, Rows rows, double eps) {
  cuda::launch("rms_norm", rms_norm_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = sizeof(ReduceSpace<float>)},
               rows_at(x, rows.width), rows_at(w, rows.width), rows_at(y, rows.width), r,
               static_cast<float>(eps));
}

// With s = sum_j dy_j w_j x_j of a row: dx_j = r (dy_j w_j - x_j r^2 s / D), dw_j = sum over rows of dy_j x_j
// r.
template <class Backend, class T>
void RmsNormKernels<Backend, T>::backward(const T* dy, const T* x, const T* w, const Acc<T>* r, T* dx, T* dw,
                                          Rows rows) {
  const std::int64_t blocks = summing_blocks(rows.count), width = rows.width;
  const DeviceScratch partials(static_cast<std::size_t>(blocks * width) * sizeof(float));
  const RmsNormGradient<T> gradient{rows_at(dy, width), rows_at(x, width),    rows_at(w, width), r,
                                    rows_at(dx, width), partials.as<float>(), rows.count};
  cuda::launch(
      "rms_norm_gradient", rms_norm_gradient_kernel<T>,
      {.blocks_x = blocks, .threads = row_threads<T>(width), .shared_bytes = summing_space<T>(width, 1)},
      gradient);
  cuda::launch_each("sum_partials", width, SumPartials<float, T>{partials.as<float>(), blocks, width, dw});
}

template struct RmsNormKernels<Cuda, float>;
template struct RmsNormKernels<Cuda, bfloat16>;

}  // namespace moh
