#include <cmath>

#include "ops/cuda/part_sums.h"
#include "ops/cuda/rows.h"
#include "ops/norm/rms_norm_kernels.h"

namespace moh {

namespace {

/// Operands of the forward pass; addend and sum may be null.
template <class T>
struct RmsNorm {
  RowAccess<const T> x, addend, w;
  RowAccess<T> sum, y;
  float* r;
  float eps;
};

/// One block per row. A thread reads back only elements of the sum that it has written itself.
template <class T>
MOH_KERNEL(kMostRowThreads)
void rms_norm_kernel(RmsNorm<T> n) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), width = n.x.width;
  const bool adds = n.addend.row != nullptr;
  const RowAccess<const T> x = n.x.at(i), sum{n.sum.row, width, n.sum.aligned};
  const RowAccess<const T> from = adds ? sum.at(i) : x;
  float squares = 0;
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack];
    x.load(first, values);
    if (adds) {
      float addends[kPack];
      n.addend.at(i).load(first, addends);
      for (int j = 0; j < kPack; ++j) values[j] = static_cast<float>(T(values[j] + addends[j]));
      n.sum.at(i).store(first, values);
    }
    for (int j = 0; j < kPack; ++j) squares += values[j] * values[j];
  });
  squares = reduce_block(squares, Sum{}, device::shared_memory<ReduceSpace<float>>()->values);
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(width) + n.eps);
  if (device::thread_x() == 0) n.r[i] = scale;
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack], weights[kPack];
    from.load(first, values);
    n.w.load(first, weights);
    for (int j = 0; j < kPack; ++j) values[j] = values[j] * scale * weights[j];
    n.y.at(i).store(first, values);
  });
}

/// Operands of the backward pass; partials [blocks, width]; dsum may be null, and so may partials: then dw is
/// not written (to leave out its sums, too, takes registers that are not there).
template <class T>
struct RmsNormGradient {
  RowAccess<const T> dy, dsum, x, w;
  const float* r;
  RowAccess<T> dx;
  float* partials;
  std::int64_t rows;
};

/// Blocks stride over the rows. A block's partial sum of dw is in shared memory, after the space for
/// reductions; each element is written by one thread.
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
      if (g.dsum.row != nullptr) {
        float dsum[kPack];
        g.dsum.at(i).load(first, dsum);
        for (int j = 0; j < kPack; ++j) x[j] += dsum[j];
      }
      g.dx.at(i).store(first, x);
    });
    device::sync_block();  // before the next row writes into the space
  }
  if (g.partials == nullptr) return;
  each_piece<T>(width, [&](std::int64_t first) {
    for (int j = 0; j < kPack && first + j < width; ++j)
      g.partials[device::block_x() * width + first + j] = dw[first + j];
  });
}

}  // namespace

template <class Backend, class T>
void RmsNormKernels<Backend, T>::forward(const T* x, const NormAddend<T>& add, const T* w, T* y, Acc<T>* r,
                                         Rows rows, double eps) {
  const std::int64_t width = rows.width;
  const RmsNorm<T> norm{rows_at(x, width),       rows_at(add.addend, width), rows_at(w, width),
                        rows_at(add.sum, width), rows_at(y, width),          r,
                        static_cast<float>(eps)};
  cuda::launch(
      "rms_norm", rms_norm_kernel<T>,
      {.blocks_x = rows.count, .threads = row_threads<T>(width), .shared_bytes = sizeof(ReduceSpace<float>)},
      norm);
}

// With s = sum_j dy_j w_j x_j of a row: dx_j = r (dy_j w_j - x_j r^2 s / D) + dsum_j, dw_j = sum over rows of
// dy_j x_j r.
template <class Backend, class T>
void RmsNormKernels<Backend, T>::backward(const T* dy, const T* dsum, const T* x, const T* w, const Acc<T>* r,
                                          T* dx, Acc<T>* dw, Rows rows) {
  const std::int64_t blocks = summing_blocks(rows.count), width = rows.width;
  const DeviceScratch partials(dw == nullptr ? 0 : static_cast<std::size_t>(blocks * width) * sizeof(float));
  const RmsNormGradient<T> gradient{rows_at(dy, width),
                                    rows_at(dsum, width),
                                    rows_at(x, width),
                                    rows_at(w, width),
                                    r,
                                    rows_at(dx, width),
                                    dw == nullptr ? nullptr : partials.as<float>(),
                                    rows.count};
  cuda::launch(
      "rms_norm_gradient", rms_norm_gradient_kernel<T>,
      {.blocks_x = blocks, .threads = row_threads<T>(width), .shared_bytes = summing_space<T>(width, 1)},
      gradient);
  if (dw == nullptr) return;
  sum_parts("sum_parts", {partials.as<float>(), 1, blocks, width}, StoreSums{dw});
}

template struct RmsNormKernels<Cuda, float>;
template struct RmsNormKernels<Cuda, bfloat16>;

}  // namespace moh
