#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
#include "ops/elementwise/gate_residual_kernels.h"
#include "ops/norm/layer_norm_kernels.h"

namespace moh {

namespace {

/// Rows of each of `groups` groups, 1 where there are none.
std::int64_t rows_of_each(Rows rows, std::int64_t groups) {
  return groups > 0 ? std::max<std::int64_t>(rows.count / groups, 1) : 1;
}

/// Factors of rows, which are asked for in order: one draw for each sample.
template <class T>
class RowFactor {
 public:
  RowFactor(const DropoutMask& mask, std::int64_t of_sample) : mask_(mask), of_sample_(of_sample) {}

  [[gnu::always_inline]] inline Acc<T> of(std::int64_t i) {
    if (mask_.drops() && i / of_sample_ != sample_) {
      sample_ = i / of_sample_;
      factor_ = static_cast<Acc<T>>(factor_of(mask_, sample_));
    }
    return factor_;
  }

 private:
  DropoutMask mask_;
  std::int64_t of_sample_, sample_ = -1;
  Acc<T> factor_ = 1;
};

/// Row i of x with its branch.
template <class T>
[[gnu::always_inline]] inline void add_branch_row(const T* x, const NormBranch<T>& branch, std::int64_t i,
                                                  std::int64_t sample, Acc<T> factor, T* sum,
                                                  std::int64_t width) {
  using A = Acc<T>;
  const T* value = branch.value + i * width;
  if (branch.gates != nullptr) {
    const T* gates = branch.gates + sample * branch.stride;
    for_vectors_in<A>(0, width,
                      [=](auto at) { at.store(sum, at.load(x) + at.load_cached(gates) * at.load(value)); });
  } else if (branch.mask.drops()) {
    for_vectors_in<A>(0, width, [=](auto at) { at.store(sum, at.load(value) * factor); });
    for_vectors_in<A>(0, width, [=](auto at) { at.store(sum, at.load(x) + at.load_cached(sum)); });
  } else {
    for_vectors_in<A>(0, width, [=](auto at) { at.store(sum, at.load(x) + at.load(value)); });
  }
}

}  // namespace

template <class Backend, class T>
void LayerNormKernels<Backend, T>::forward(const T* x, const NormBranch<T>& branch, T* stream,
                                           const NormAffine<T>& affine, T* y, Acc<T>* mean, Acc<T>* r,
                                           Rows rows, double eps) {
  using A = Acc<T>;
  const std::int64_t width = rows.width, of_sample = rows_of_each(rows, branch.samples);
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    RowFactor<T> factor(branch.mask, of_sample);
    for (std::int64_t i = begin; i < end; ++i) {
      const T* xi = x + i * width;
      T* yi = y + i * width;
      if (branch.value != nullptr) {
        T* to = stream + i * width;
        add_branch_row(xi, branch, i, i / of_sample, factor.of(i), to, width);
        xi = to;
      }
      Vec<A> sum{}, squares{};
      for_vectors_in<A>(0, width, [&](auto at) { sum += at.load(xi); });
      const A mi = sum_lanes<A>(sum) / A(width);
      for_vectors_in<A>(0, width, [&](auto at) {
        const Vec<A> off = at.masked(at.load_cached(xi) - mi);
        squares += off * off;
      });
      const A ri = A(1) / std::sqrt(sum_lanes<A>(squares) / A(width) + A(eps));
      mean[i] = mi;
      r[i] = ri;
      const std::int64_t group = i / rows_of_each(rows, affine.groups);
      const T* weight = affine.weight ? affine.weight + group * affine.stride : nullptr;
      const T* bias = affine.bias ? affine.bias + group * affine.stride : nullptr;
      const A base = A(affine.base);
      for_vectors_in<A>(0, width, [=](auto at) {
        const Vec<A> scaled =
            (at.load_cached(xi) - mi) * ri * (base + (weight ? at.load_cached(weight) : Vec<A>{}));
        at.store(yi, scaled + (bias ? at.load_cached(bias) : Vec<A>{}));
      });
    }
  });
}

namespace {

/// One row of the backward pass; adds to db and dw unless these are null.
template <bool kWeighted, bool kSums, class T, class A>
[[gnu::always_inline]] inline void backward_row(const T* dy, const T* x, A base, const T* weight, A mean, A r,
                                                T* dx, A* db, A* dw, std::int64_t width) {
  const auto weighted = [=](auto at) -> Vec<A> {
    if constexpr (!kWeighted) return at.load_cached(dy) * base;
    return at.load_cached(dy) * (base + at.load_cached(weight));
  };
  Vec<A> sum{}, dot{};
  for_vectors_in<A>(0, width, [&](auto at) {
    const Vec<A> dyj = at.load(dy), n = (at.load(x) - mean) * r, g = weighted(at);
    sum += g;
    dot += g * n;
    if constexpr (kSums) {
      at.store(db, at.load_cached(db) + dyj);
      at.store(dw, at.load_cached(dw) + dyj * n);
    }
  });
  const A mean_g = sum_lanes<A>(sum) / A(width), mean_gn = sum_lanes<A>(dot) / A(width);
  for_vectors_in<A>(0, width, [=](auto at) {
    at.store(dx, r * (weighted(at) - mean_g - (at.load_cached(x) - mean) * r * mean_gn));
  });
}

}  // namespace

// With n_j = (x_j - mean) r and g_j = dy_j (base + w_j): dx_j = r (g_j - mean(g) - n_j mean(g n)), and over
// the rows of a group db_j = sum dy_j, dw_j = sum dy_j n_j.
template <class Backend, class T>
void LayerNormKernels<Backend, T>::backward(const T* dy, const T* dsum, const T* x,
                                            const NormBranch<T>& branch, const NormAffine<T>& affine,
                                            const Acc<T>* mean, const Acc<T>* r,
                                            const LayerNormGradients<T>& to, Rows rows) {
  Acc<T>* const dparameters = to.bias.overwritten;
  using A = Acc<T>;
  const std::int64_t width = rows.width, of_sample = rows_of_each(rows, branch.samples);
  T *const dx = to.x, *const dbranch = to.branch;
  const auto row = [=]<bool kSums>(std::bool_constant<kSums>, std::int64_t group, std::int64_t i, A* db,
                                   A* dw) {
    const std::int64_t first = i * width;
    const A base = A(affine.base);
    T* const dxi = dx + first;
    if (affine.weight) {
      backward_row<true, kSums>(dy + first, x + first, base, affine.weight + group * affine.stride, mean[i],
                                r[i], dxi, db, dw, width);
    } else {
      backward_row<false, kSums>(dy + first, x + first, base, affine.weight, mean[i], r[i], dxi, db, dw,
                                 width);
    }
    if (dsum != nullptr) {  // a loop of its own rounds each gradient before the addition
      const T* dsumi = dsum + first;
      for_vectors_in<A>(0, width, [=](auto at) { at.store(dxi, at.load_cached(dxi) + at.load(dsumi)); });
    }
  };
  if (dparameters != nullptr) {
    const RowGroups groups{affine.groups, rows.count, affine.stride};
    sum_over_groups<A>(groups, 2 * width, dparameters, [=](std::int64_t group, std::int64_t i, A* partial) {
      row(std::true_type(), group, i, partial, partial + width);
    });
  } else {
    const std::int64_t each = rows_of_each(rows, affine.groups);
    parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) row(std::false_type(), i / each, i, nullptr, nullptr);
    });
  }
  if (branch.gates != nullptr) {
    return GateResidualKernels<Backend, T>::backward(dx, branch.value, branch.gates, dbranch, to.gates,
                                                     {rows, branch.samples, branch.stride});
  }
  if (!branch.mask.drops()) return;
  const DropoutMask mask = branch.mask;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    RowFactor<T> factors(mask, of_sample);
    for (std::int64_t i = begin; i < end; ++i) {
      const T* dxi = dx + i * width;
      T* dbranchi = dbranch + i * width;
      const A factor = factors.of(i);
      for_vectors_in<A>(0, width, [=](auto at) { at.store(dbranchi, at.load(dxi) * factor); });
    }
  });
}

MOH_MATRIX_KERNELS(LayerNormKernels)

}  // namespace moh
