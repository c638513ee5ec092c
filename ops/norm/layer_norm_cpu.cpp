#include <cmath>
#include <type_traits>

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
      A sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < width; ++j) sum += A(xi[j]);
      const A mi = sum / A(width);
#pragma omp simd reduction(+ : squares)
      for (std::int64_t j = 0; j < width; ++j) squares += (A(xi[j]) - mi) * (A(xi[j]) - mi);
      const A ri = A(1) / std::sqrt(squares / A(width) + A(eps));
      mean[i] = mi;
      r[i] = ri;
      const std::int64_t group = i / (rows.count / affine.groups);
      const T* weight = affine.weight ? affine.weight + group * affine.stride : nullptr;
      const T* bias = affine.bias ? affine.bias + group * affine.stride : nullptr;
      const A base = A(affine.base);
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) {
        const A scaled = (A(xi[j]) - mi) * ri * (base + (weight ? A(weight[j]) : A(0)));
        yi[j] = scaled + (bias ? A(bias[j]) : A(0));
      }
    }
  });
}

namespace {

/// One row of the backward pass; adds to db and dw unless these are null.
template <bool kWeighted, bool kSums, class T, class A>
[[gnu::always_inline]] inline void backward_row(const T* dy, const T* x, A base, const T* weight, A mean, A r,
                                                T* dx, A* db, A* dw, std::int64_t width) {
  const auto weighted = [=](std::int64_t j) { return A(dy[j]) * (kWeighted ? base + A(weight[j]) : base); };
  A sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
  for (std::int64_t j = 0; j < width; ++j) {
    const A n = (A(x[j]) - mean) * r, g = weighted(j);
    sum += g;
    dot += g * n;
    if constexpr (kSums) {
      db[j] += A(dy[j]);
      dw[j] += A(dy[j]) * n;
    }
  }
  const A mean_g = sum / A(width), mean_gn = dot / A(width);
#pragma omp simd
  for (std::int64_t j = 0; j < width; ++j) {
    dx[j] = r * (weighted(j) - mean_g - (A(x[j]) - mean) * r * mean_gn);
  }
}

}  // namespace

// With n_j = (x_j - mean) r and g_j = dy_j (base + w_j): dx_j = r (g_j - mean(g) - n_j mean(g n)), and over
// the rows of a group db_j = sum dy_j, dw_j = sum dy_j n_j.
template <class Backend, class T>
void LayerNormKernels<Backend, T>::backward(const T* dy, const T* x, const NormAffine<T>& affine,
                                            const Acc<T>* mean, const Acc<T>* r, T* dx, Acc<T>* dparameters,
                                            Rows rows) {
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

template struct LayerNormKernels<cpu::MOH_ISA, float>;
template struct LayerNormKernels<cpu::MOH_ISA, bfloat16>;
template struct LayerNormKernels<cpu::MOH_ISA, double>;

}  // namespace moh
