#include <cmath>

#include "ops/cuda/part_sums.h"
#include "ops/cuda/rows.h"
#include "ops/dropout/dropout_mask_cuda.h"
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

/// NormBranch for kernels.
template <class T>
struct DeviceBranch {
  RowAccess<const T> value, gates;
  DropoutMask mask;
  std::int64_t stride;
  std::int64_t sample_rows;  // of each sample

  MOH_DEVICE bool drops() const { return mask.drops(); }
  /// The factor of a row besides its gates.
  MOH_DEVICE float factor_of_row(std::int64_t i) const {
    return drops() ? device_factor_of(mask, i / sample_rows) : 1.0F;
  }
  /// Gates, or ones, of row i.
  MOH_DEVICE void load_gates(std::int64_t i, std::int64_t first, float (&to)[Pack<T>::kCount]) const {
    if (gates.row == nullptr) {
      for (int j = 0; j < Pack<T>::kCount; ++j) to[j] = 1.0F;
      return;
    }
    RowAccess<const T> of_sample = gates;
    of_sample.row += i / sample_rows * stride;
    of_sample.load(first, to);
  }
};

template <class T>
DeviceBranch<T> device_branch(const NormBranch<T>& branch, Rows rows) {
  return {rows_at(branch.value, rows.width), rows_at(branch.gates, rows.width), branch.mask, branch.stride,
          branch.samples > 0 ? rows.count / branch.samples : 0};
}

template <class T>
struct LayerNorm {
  RowAccess<const T> x;
  DeviceBranch<T> branch;
  DeviceAffine<T> affine;
  RowAccess<T> sum, y;
  float *mean, *r;
  float eps;
};

/// One block per row. A thread reads back only elements of the sum that it has written itself.
template <class T>
MOH_KERNEL(kMostRowThreads)
void layer_norm_kernel(LayerNorm<T> n) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), width = n.x.width;
  auto* space = device::shared_memory<ReduceSpace<float>>();
  const bool adds = n.branch.value.row != nullptr;
  const RowAccess<const T> x = n.x.at(i), stream{n.sum.row, width, n.sum.aligned};
  const RowAccess<const T> from = adds ? stream.at(i) : x;
  const float factor = n.branch.factor_of_row(i);
  float sum = 0, squares = 0;
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack];
    x.load(first, values);
    if (adds) {
      float branch[kPack], gates[kPack];
      n.branch.value.at(i).load(first, branch);
      n.branch.load_gates(i, first, gates);
      for (int j = 0; j < kPack; ++j)
        values[j] = static_cast<float>(T(values[j] + branch[j] * (factor * gates[j])));
      n.sum.at(i).store(first, values);
    }
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

/// Stores the sums of db, of dw, and of the gates' gradients.
template <class T>
struct StoreNormSums {
  StoreGradients<T> bias, weight, gates;
  std::int64_t width;
  MOH_DEVICE void operator()(std::int64_t group, std::int64_t column, float sum) const {
    if (column < width) {
      bias(group, column, sum);
    } else if (column < 2 * width) {
      weight(group, column - width, sum);
    } else {
      gates(group, column - 2 * width, sum);
    }
  }
};

/// Operands of the backward pass. partials [groups, parts, sums, width] with the sums of db, dw and, if there
/// are gates, of theirs; null: these are not computed. dsum may be null, and may be dx; dbranch may be null.
template <class T>
struct LayerNormGradient {
  RowAccess<const T> dy, dsum, x;
  DeviceBranch<T> branch;
  DeviceAffine<T> affine;
  const float *mean, *r;
  RowAccess<T> dx, dbranch;
  float* partials;
  int sums;  // 2, or with gates 3
};

/// A piece of a row of dx, whose float values are `dx`, to the gradient of the branch and, in dgates, of its
/// gates.
template <class T>
MOH_DEVICE void branch_gradient(const LayerNormGradient<T>& g, std::int64_t i, std::int64_t first,
                                float factor, const float (&dx)[Pack<T>::kCount], float* dgates) {
  constexpr int kPack = Pack<T>::kCount;
  float gates[kPack], dbranch[kPack];
  g.branch.load_gates(i, first, gates);
  for (int j = 0; j < kPack; ++j) dbranch[j] = static_cast<float>(T(dx[j])) * (factor * gates[j]);
  g.dbranch.at(i).store(first, dbranch);
  if (g.branch.gates.row == nullptr) return;
  g.branch.value.at(i).load(first, gates);
  for (int j = 0; j < kPack; ++j) dgates[first + j] += static_cast<float>(T(dx[j])) * gates[j];
}

/// Grid: x is the group; y strides over the group's rows in steps of gridDim.y. The block's partial sums are
/// in shared memory, after the space for reductions; each element is written by one thread.
template <class T>
MOH_KERNEL(kMostRowThreads)
void layer_norm_gradient_kernel(LayerNormGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t width = g.x.width, group = device::block_x(), rows = g.affine.group_rows;
  const std::int64_t padded = (width + kPack - 1) / kPack * kPack;
  auto* space = device::shared_memory<ReduceSpace<float>>();
  auto* db = reinterpret_cast<float*>(space + 2);
  float *const dw = db + padded, *const dgates = dw + padded;
  const bool sums = g.partials != nullptr;
  if (sums) {
    each_piece<T>(width, [&](std::int64_t first) {
      for (int k = 0; k < g.sums; ++k) {
        for (int j = 0; j < kPack; ++j) db[k * padded + first + j] = 0;
      }
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
    const float factor = g.branch.factor_of_row(i);
    each_piece<T>(width, [&](std::int64_t first) {
      float x[kPack], dy[kPack], factors[kPack];
      g.x.at(i).load(first, x);
      g.dy.at(i).load(first, dy);
      g.affine.load_factors(group, first, factors);
      for (int j = 0; j < kPack; ++j) x[j] = r * (dy[j] * factors[j] - mean_g - (x[j] - mean) * r * mean_gn);
      if (g.dsum.row != nullptr) {
        g.dsum.at(i).load(first, dy);
        for (int j = 0; j < kPack; ++j) x[j] += dy[j];
      }
      g.dx.at(i).store(first, x);
      if (g.dbranch.row != nullptr) branch_gradient(g, i, first, factor, x, dgates);
    });
    device::sync_block();  // before the next row writes into the space
  }
  if (!sums) return;
  each_piece<T>(width, [&](std::int64_t first) {
    float* to = g.partials + (group * device::blocks_y() + device::block_y()) * g.sums * width;
    for (int k = 0; k < g.sums; ++k) {
      for (int j = 0; j < kPack && first + j < width; ++j)
        to[k * width + first + j] = db[k * padded + first + j];
    }
  });
}

}  // namespace

template <class Backend, class T>
void LayerNormKernels<Backend, T>::forward(const T* x, const NormBranch<T>& branch, T* sum,
                                           const NormAffine<T>& affine, T* y, Acc<T>* mean, Acc<T>* r,
                                           Rows rows, double eps) {
  const std::int64_t width = rows.width;
  const LayerNorm<T> norm{rows_at(x, width),
                          device_branch(branch, rows),
                          device_affine(affine, rows),
                          rows_at(sum, width),
                          rows_at(y, width),
                          mean,
                          r,
                          static_cast<float>(eps)};
  cuda::launch("layer_norm", layer_norm_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(width),
                .shared_bytes = 2 * sizeof(ReduceSpace<float>)},
               norm);
}

// With n_j = (x_j - mean) r and g_j = dy_j (base + w_j): dx_j = r (g_j - mean(g) - n_j mean(g n)) + dsum_j,
// and over the rows of a group db_j = sum dy_j, dw_j = sum dy_j n_j.
template <class Backend, class T>
void LayerNormKernels<Backend, T>::backward(const T* dy, const T* dsum, const T* x,
                                            const NormBranch<T>& branch, const NormAffine<T>& affine,
                                            const Acc<T>* mean, const Acc<T>* r,
                                            const LayerNormGradients<T>& to, Rows rows) {
  const std::int64_t width = rows.width;
  const DeviceAffine<T> on_device = device_affine(affine, rows);
  const std::int64_t parts = summing_blocks(on_device.group_rows, affine.groups);
  const bool gated = branch.gates != nullptr;
  MOH_CHECK(!gated || (to.bias && affine.groups == branch.samples),
            "gates come with groups of their samples");
  const int each = gated ? 3 : 2, sums = to.bias ? each : 0;
  const DeviceScratch partials(static_cast<std::size_t>(affine.groups * parts * sums * width) *
                               sizeof(float));
  const LayerNormGradient<T> gradient{rows_at(dy, width),
                                      rows_at(dsum, width),
                                      rows_at(x, width),
                                      device_branch(branch, rows),
                                      on_device,
                                      mean,
                                      r,
                                      rows_at(to.x, width),
                                      rows_at(to.branch, width),
                                      sums > 0 ? partials.as<float>() : nullptr,
                                      sums};
  const std::size_t shared = summing_space<T>(width, sums) + sizeof(ReduceSpace<float>);
  cuda::launch("layer_norm_gradient", layer_norm_gradient_kernel<T>,
               {.blocks_x = affine.groups,
                .blocks_y = parts,
                .threads = row_threads<T>(width),
                .shared_bytes = shared},
               gradient);
  if (sums == 0) return;
  sum_parts("sum_parts", {partials.as<float>(), affine.groups, parts, sums * width},
            StoreNormSums<T>{
                {to.bias, affine.stride}, {to.weight, affine.stride}, {to.gates, branch.stride}, width});
}

template struct LayerNormKernels<Cuda, float>;
template struct LayerNormKernels<Cuda, bfloat16>;

}  // namespace moh
