#include <cmath>
#include <type_traits>

#include "ops/cpu/elementwise.h"
#include "ops/cpu/reduce.h"
#include "ops/norm/layer_norm_kernels.h"

namespace moh {

template <class Backend, class T>
void LayerNormKernels<Backend, T>::forward(const T* x, const NormAffine<T>& affine, T* y, Acc<T>* mean,
                                           Acc<T>* r, Rows rows, double eps) {
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* xi = x + i * width;
      T* yi = y + i * width;
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
      const std::int64_t group = i / (rows.count / affine.groups);
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
void LayerNormKernels<Backend, T>::backward(const T* dy, const T* x, const NormAffine<T>& affine,
                                            const Acc<T>* mean, const Acc<T>* r, T* dx, bool adds,
                                            const NormSums<T>& sums, Rows rows) {
  MOH_CHECK(!adds, "the engine adds gradients on a CPU");
  Acc<T>* const dparameters = sums.bias.overwritten;
  using A = Acc<T>;
  const std::int64_t width = rows.width;
  const auto row = [=]<bool kSums>(std::bool_constant<kSums>, std::int64_t group, std::int64_t i, A* db,
                                   A* dw) {
    const std::int64_t at = i * width;
    const A base = A(affine.base);
    if (affine.weight) {
      backward_row<true, kSums>(dy + at, x + at, base, affine.weight + group * affine.stride, mean[i], r[i],
                                dx + at, db, dw, width);
    } else {
      backward_row<false, kSums>(dy + at, x + at, base, affine.weight, mean[i], r[i], dx + at, db, dw, width);
    }
  };
  if (dparameters != nullptr) {
    const RowGroups groups{affine.groups, rows.count, affine.stride};
    return sum_over_groups<A>(groups, 2 * width, dparameters,
                              [=](std::int64_t group, std::int64_t i, A* partial) {
                                row(std::true_type(), group, i, partial, partial + width);
                              });
  }
  const std::int64_t each = affine.groups > 0 ? rows.count / affine.groups : 0;
  parallel_for(rows.count, row_grain(rows.count, width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row(std::false_type(), i / each, i, nullptr, nullptr);
  });
}

MOH_MATRIX_KERNELS(LayerNormKernels)

}  // namespace moh
