#include <cmath>

#include "ops/cuda/part_sums.h"
#include "ops/cuda/rows.h"
#include "ops/norm/layer_norm_kernels.h"

namespace moh {

namespace {

/// NormAffine for kernels.
template <class T>
struct DeviceAffine {
  RowAccess<const T> weight, bias;
  float base;
  std::int64_t stride;
  std::int64_t group_rows;  // of each group

  /// The factors of a group's rows: base + weight.
  MOH_DEVICE void load_factors(std::int64_t group, std::int64_t first, float (&to)[Pack<T>::kCount]) const {
    load(weight, group, first, to);
    for (int j = 0; j < Pack<T>::kCount; ++j) to[j] += base;
  }
  MOH_DEVICE void load_bias(std::int64_t group, std::int64_t first, float (&to)[Pack<T>::kCount]) const {
    load(bias, group, first, to);
  }

 private:
  MOH_DEVICE void load(RowAccess<const T> rows, std::int64_t group, std::int64_t first,
                       float (&to)[Pack<T>::kCount]) const {
    if (rows.row != nullptr) {
      rows.row += group * stride;
      rows.load(first, to);
    } else {
      for (int j = 0; j < Pack<T>::kCount; ++j) to[j] = 0;
    }
  }
};

template <class T>
DeviceAffine<T> device_affine(const NormAffine<T>& affine, Rows rows) {
  return {rows_at(affine.weight, rows.width), rows_at(affine.bias, rows.width),
          static_cast<float>(affine.base), affine.stride, affine.groups > 0 ? rows.count / affine.groups : 0};
}

template <class T>
struct LayerNorm {
  RowAccess<const T> x;
  DeviceAffine<T> affine;
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
  const std::int64_t group = i / n.affine.group_rows;
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack], factors[kPack], bias[kPack];
    from.load(first, values);
    n.affine.load_factors(group, first, factors);
    n.affine.load_bias(group, first, bias);
    for (int j = 0; j < kPack; ++j) values[j] = (values[j] - mean) * r * factors[j] + bias[j];
    n.y.at(i).store(first, values);
  });
}

/// Stores the sums of db, then of dw.
template <class T>
struct StoreNormSums {
  StoreGradients<T> bias, weight;
  std::int64_t width;
  MOH_DEVICE void operator()(std::int64_t group, std::int64_t column, float sum) const {
    if (column < width) {
      bias(group, column, sum);
    } else {
      weight(group, column - width, sum);
    }
  }
};

/// Operands of the backward pass; partials [groups, parts, 2, width], or null: then db and dw are not
/// computed.
template <class T>
struct LayerNormGradient {
  RowAccess<const T> dy, x;
  DeviceAffine<T> affine;
  const float *mean, *r;
  RowAccess<T> dx;
  bool adds;  // to dx
  float* partials;
};

/// Grid: x is the group; y strides over the group's rows in steps of gridDim.y. The block's partial sums of
/// db and dw are in shared memory, after the space for reductions; each element is written by one thread.
template <class T>
MOH_KERNEL(kMostRowThreads)
void layer_norm_gradient_kernel(LayerNormGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t width = g.x.width, group = device::block_x(), rows = g.affine.group_rows;
  auto* space = device::shared_memory<ReduceSpace<float>>();
  auto* db = reinterpret_cast<float*>(space + 2);
  float* dw = db + (width + kPack - 1) / kPack * kPack;
  const bool sums = g.partials != nullptr;
  if (sums) {
    each_piece<T>(width, [&](std::int64_t first) {
      for (int j = 0; j < kPack; ++j) db[first + j] = dw[first + j] = 0;
    });
  }
  for (std::int64_t i = group * rows + device::block_y(); i < (group + 1) * rows; i += device::blocks_y()) {
    const float mean = g.mean[i], r = g.r[i];
    float sum = 0, dot = 0;
    each_piece<T>(width, [&](std::int64_t first) {
      float x[kPack], dy[kPack], factors[kPack];
      g.x.at(i).load(first, x);
      g.dy.at(i).load(first, dy);
      g.affine.load_factors(group, first, factors);
      for (int j = 0; j < kPack; ++j) {  // dy is zero past the end
        const float normal = (x[j] - mean) * r;
        sum += dy[j] * factors[j];
        dot += dy[j] * factors[j] * normal;
        if (!sums) continue;
        db[first + j] += dy[j];
        dw[first + j] += dy[j] * normal;
      }
    });
    const float mean_g = reduce_block(sum, Sum{}, space[0].values) / static_cast<float>(width);
    const float mean_gn = reduce_block(dot, Sum{}, space[1].values) / static_cast<float>(width);
    each_piece<T>(width, [&](std::int64_t first) {
      float x[kPack], dy[kPack], factors[kPack];
      g.x.at(i).load(first, x);
      g.dy.at(i).load(first, dy);
      g.affine.load_factors(group, first, factors);
      for (int j = 0; j < kPack; ++j) x[j] = r * (dy[j] * factors[j] - mean_g - (x[j] - mean) * r * mean_gn);
      if (g.adds) {
        g.dx.at(i).load(first, dy);
        for (int j = 0; j < kPack; ++j) x[j] += dy[j];
      }
      g.dx.at(i).store(first, x);
    });
    device::sync_block();  // before the next row writes into the space
  }
  if (!sums) return;
  each_piece<T>(width, [&](std::int64_t first) {
    float* to = g.partials + (group * device::blocks_y() + device::block_y()) * 2 * width;
    for (int j = 0; j < kPack && first + j < width; ++j) {
      to[first + j] = db[first + j];
      to[width + first + j] = dw[first + j];
    }
  });
}

}  // namespace

template <class Backend, class T>
void LayerNormKernels<Backend, T>::forward(const T* x, const NormAffine<T>& affine, T* y, Acc<T>* mean,
                                           Acc<T>* r, Rows rows, double eps) {
  const std::int64_t width = rows.width;
  const LayerNorm<T> norm{rows_at(x, width),      device_affine(affine, rows), rows_at(y, width), mean, r,
                          static_cast<float>(eps)};
  cuda::launch("layer_norm", layer_norm_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(width),
                .shared_bytes = 2 * sizeof(ReduceSpace<float>)},
               norm);
}

// With n_j = (x_j - mean) r and g_j = dy_j (base + w_j): dx_j = r (g_j - mean(g) - n_j mean(g n)), and over
// the rows of a group db_j = sum dy_j, dw_j = sum dy_j n_j.
template <class Backend, class T>
void LayerNormKernels<Backend, T>::backward(const T* dy, const T* x, const NormAffine<T>& affine,
                                            const Acc<T>* mean, const Acc<T>* r, T* dx, bool adds,
                                            const NormSums<T>& to, Rows rows) {
  const std::int64_t width = rows.width;
  const DeviceAffine<T> on_device = device_affine(affine, rows);
  const std::int64_t parts = summing_blocks(on_device.group_rows, affine.groups);
  const bool sums = static_cast<bool>(to.bias);
  const std::int64_t floats = sums ? affine.groups * parts * 2 * width : 0;
  const DeviceScratch partials(static_cast<std::size_t>(floats) * sizeof(float));
  const LayerNormGradient<T> gradient{rows_at(dy, width),
                                      rows_at(x, width),
                                      on_device,
                                      mean,
                                      r,
                                      rows_at(dx, width),
                                      adds,
                                      sums ? partials.as<float>() : nullptr};
  const std::size_t shared = summing_space<T>(width, sums ? 2 : 0) + sizeof(ReduceSpace<float>);
  cuda::launch("layer_norm_gradient", layer_norm_gradient_kernel<T>,
               {.blocks_x = affine.groups,
                .blocks_y = parts,
                .threads = row_threads<T>(width),
                .shared_bytes = shared},
               gradient);
  if (!sums) return;
  sum_parts("sum_parts", {partials.as<float>(), affine.groups, parts, 2 * width},
            StoreNormSums<T>{{to.bias, affine.stride}, {to.weight, affine.stride}, width});
}

template struct LayerNormKernels<Cuda, float>;
template struct LayerNormKernels<Cuda, bfloat16>;

}  // namespace moh
