#include <cmath>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/moh/query_norm_kernels.h"

namespace moh {
namespace {

constexpr std::int64_t kTokenGrain = 64;

/// 1 / std of n numbers; 0 if std is only the rounding error of equal numbers.
template <class A>
[[gnu::always_inline]] inline A inverse_std_of(const A* s, std::int64_t n) {
  if (n < 2) return A(0);
  A mean = 0;
  for (std::int64_t e = 0; e < n; ++e) mean += s[e];
  mean /= A(n);
  A squares = 0;
  for (std::int64_t e = 0; e < n; ++e) squares += (s[e] - mean) * (s[e] - mean);
  const A std = std::sqrt(squares / A(n - 1));
  const A rounding = sizeof(A) == 8 ? A(1e-14) : A(1e-6);
  return std > rounding * mean ? A(1) / std : A(0);
}

/// The head of the layer at index i of the router's order, shared heads first.
[[gnu::always_inline]] inline std::int64_t head_at(const QueryNormShape& shape, std::int64_t i) {
  return shape.order ? shape.order[i] : i;
}

}  // namespace

template <class Backend, class T>
void QueryNormKernels<Backend, T>::forward(const QueryNormShape& shape, const T* q, Acc<T>* norms,
                                           Acc<T>* inverse_std, Acc<T>* logits) {
  using A = Acc<T>;
  const std::int64_t experts = shape.heads - shape.num_shared, d = shape.head_dim;
  parallel_for(shape.tokens, kTokenGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      A* s = norms + t * experts;
      for (std::int64_t e = 0; e < experts; ++e) {
        const T* row = q + (t * shape.heads + head_at(shape, shape.num_shared + e)) * d;
        A squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t j = 0; j < d; ++j) squares += A(row[j]) * A(row[j]);
        s[e] = std::sqrt(squares);
      }
      inverse_std[t] = inverse_std_of(s, experts);
      for (std::int64_t e = 0; e < experts; ++e) logits[t * experts + e] = s[e] * inverse_std[t];
    }
  });
}

// With u = 1 / std: ds_e = dz_e u - u^3 (s_e - mean s) / (n - 1) sum_j dz_j s_j, and dq = ds q / s.
template <class Backend, class T>
void QueryNormKernels<Backend, T>::backward(const QueryNormShape& shape, const T* q, const Acc<T>* norms,
                                            const Acc<T>* inverse_std, const Acc<T>* d_logits, T* dq) {
  using A = Acc<T>;
  const std::int64_t experts = shape.heads - shape.num_shared, d = shape.head_dim;
  parallel_for(shape.tokens, kTokenGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const A* s = norms + t * experts;
      const A* dz = d_logits + t * experts;
      const A u = inverse_std[t];
      A mean = 0, along = 0;
      for (std::int64_t e = 0; e < experts; ++e) {
        mean += s[e] / A(experts);
        along += dz[e] * s[e];
      }
      for (std::int64_t i = 0; i < shape.num_shared; ++i) {
        T* row = dq + (t * shape.heads + head_at(shape, i)) * d;
        for (std::int64_t j = 0; j < d; ++j) row[j] = A(0);
      }
      for (std::int64_t e = 0; e < experts; ++e) {
        const A ds = u == A(0) ? A(0) : dz[e] * u - along * u * u * u * (s[e] - mean) / A(experts - 1);
        const A factor = s[e] > A(0) ? ds / s[e] : A(0);
        const std::int64_t row = (t * shape.heads + head_at(shape, shape.num_shared + e)) * d;
#pragma omp simd
        for (std::int64_t j = 0; j < d; ++j) dq[row + j] = factor * A(q[row + j]);
      }
    }
  });
}

template struct QueryNormKernels<cpu::MOH_ISA, float>;
template struct QueryNormKernels<cpu::MOH_ISA, bfloat16>;
template struct QueryNormKernels<cpu::MOH_ISA, double>;

}  // namespace moh
