#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/norm/layer_norm_kernels.h"

namespace moh {

namespace {

/// Weights, or ones where there are none.
template <class T>
MOH_DEVICE void load_or(const RowAccess<const T>& row, std::int64_t first, float otherwise,
                        float (&to)[Pack<T>::kCount]) {
  if (row.row != nullptr) {
    row.load(first, to);
  } else {
    for (int j = 0; j < Pack<T>::kCount; ++j) to[j] = otherwise;
  }
}

template <class T>
struct LayerNorm {
  RowAccess<const T> x, weight, bias;
  RowAccess<T> y;
  float *mean, *r;
  float eps;
};

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void layer_norm_kernel(LayerNorm<T> n) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), width = n.x.width;
  auto* space = device::shared_memory<ReduceSpace<float>>();
  const RowAccess<const T> from = n.x.at(i);
  float sum = 0, squares = 0;
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack];
    from.load(first, values);
    for (int j = 0; j < kPack; ++j) sum += values[j];  // zeros past the end
  });
  const float mean = reduce_block(sum, Sum{}, space[0].values) / static_cast<float>(width);
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack];
    from.load(first, values);
    for (int j = 0; j < kPack; ++j) {
      const float off = first + j < width ? values[j] - mean : 0.0F;
      squares += off * off;
    }
  });
  squares = reduce_block(squares, Sum{}, space[1].values);
  const float r = 1.0F / sqrtf(squares / static_cast<float>(width) + n.eps);
  if (device::thread_x() == 0) {
    n.mean[i] = mean;
    n.r[i] = r;
  }
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack], weight[kPack], bias[kPack];
    from.load(first, values);
    load_or(n.weight, first, 1.0F, weight);
    load_or(n.bias, first, 0.0F, bias);
    for (int j = 0; j < kPack; ++j) values[j] = (values[j] - mean) * r * weight[j] + bias[j];
    n.y.at(i).store(first, values);
  });
}

/// What the backward pass reads and writes; partials [blocks, 2, width].
template <class T>
struct LayerNormGradient {
  RowAccess<const T> dy, x, weight;
  const float *mean, *r;
  RowAccess<T> dx;
  float* partials;
  std::int64_t rows;
};

/// A block takes every blocks-th row. Its shares of dw and db lie in shared memory, behind the space for
/// reductions; each element belongs to one thread.
template <class T>
MOH_KERNEL(kMostRowThreads)
void layer_norm_gradient_kernel(LayerNormGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t width = g.x.width;
  auto* space = device::shared_memory<ReduceSpace<float>>();
  auto* dw = reinterpret_cast<float*>(space + 2);
  float* db = dw + (width + kPack - 1) / kPack * kPack;
  each_piece<T>(width, [&](std::int64_t first) {
    for (int j = 0; j < kPack; ++j) dw[first + j] = db[first + j] = 0;
  });
  for (std::int64_t i = device::block_x(); i < g.rows; i += device::blocks_x()) {
    const float mean = g.mean[i], r = g.r[i];
    float sum = 0, dot = 0;
    each_piece<T>(width, [&](std::int64_t first) {
      float x[kPack], dy[kPack], weight[kPack];
      g.x.at(i).load(first, x);
      g.dy.at(i).load(first, dy);
      load_or(g.weight, first, 1.0F, weight);
      for (int j = 0; j < kPack; ++j) {  // dy is zero past the end
        const float normal = (x[j] - mean) * r;
        sum += dy[j] * weight[j];
        dot += dy[j] * weight[j] * normal;
        dw[first + j] += dy[j] * normal;
        db[first + j] += dy[j];
      }
    });
    const float mean_g = reduce_block(sum, Sum{}, space[0].values) / static_cast<float>(width);
    const float mean_gn = reduce_block(dot, Sum{}, space[1].values) / static_cast<float>(width);
    each_piece<T>(width, [&](std::int64_t first) {
      float x[kPack], dy[kPack], weight[kPack];
      g.x.at(i).load(first, x);
      g.dy.at(i).load(first, dy);
      load_or(g.weight, first, 1.0F, weight);
      for (int j = 0; j < kPack; ++j) x[j] = r * (dy[j] * weight[j] - mean_g - (x[j] - mean) * r * mean_gn);
      g.dx.at(i).store(first, x);
    });
    device::sync_block();  // before the next row writes into the space
  }
  each_piece<T>(width, [&](std::int64_t first) {
    float* to = g.partials + device::block_x() * 2 * width;
    for (int j = 0; j < kPack && first + j < width; ++j) {
      to[first + j] = dw[first + j];
      to[width + first + j] = db[first + j];
    }
  });
}

}  // namespace

template <class Backend, class T>
void LayerNormKernels<Backend, T>::forward(const T* x, const T* weight, const T* bias, T* y, Acc<T>* mean,
                                           Acc<T>* r, Rows rows, double eps) {
  const std::int64_t width = rows.width;
  const LayerNorm<T> norm{
      rows_at(x, width),      rows_at(weight, width), rows_at(bias, width), rows_at(y, width), mean, r,
      static_cast<float>(eps)};
  cuda::launch("layer_norm", layer_norm_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(width),
                .shared_bytes = 2 * sizeof(ReduceSpace<float>)},
               norm);
}

// With n_j = (x_j - mean) r and g_j = dy_j w_j: dx_j = r (g_j - mean(g) - n_j mean(g n)), and over the rows
// dw_j = sum dy_j n_j, db_j = sum dy_j.
template <class Backend, class T>
void LayerNormKernels<Backend, T>::backward(const T* dy, const T* x, const T* weight, const Acc<T>* mean,
                                            const Acc<T>* r, T* dx, T* dparameters, Rows rows) {
  const std::int64_t blocks = summing_blocks(rows.count), width = rows.width;
  const DeviceScratch partials(static_cast<std::size_t>(blocks * 2 * width) * sizeof(float));
  const LayerNormGradient<T> gradient{
      rows_at(dy, width),   rows_at(x, width), rows_at(weight, width), mean, r, rows_at(dx, width),
      partials.as<float>(), rows.count};
  const std::size_t shared = summing_space<T>(width, 2) + sizeof(ReduceSpace<float>);
  cuda::launch("layer_norm_gradient", layer_norm_gradient_kernel<T>,
               {.blocks_x = blocks, .threads = row_threads<T>(width), .shared_bytes = shared}, gradient);
  cuda::launch_each("sum_partials", 2 * width,
                    SumPartials<float, T>{partials.as<float>(), blocks, 2 * width, dparameters});
}

template struct LayerNormKernels<Cuda, float>;
template struct LayerNormKernels<Cuda, bfloat16>;

}  // namespace moh
