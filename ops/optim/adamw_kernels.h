#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// A range of elements of one parameter: the unit of parallel work.
template <class T>
struct AdamWChunk {
  T* value = nullptr;
  const Acc<T>* grad = nullptr;
  Acc<T>* exp_avg = nullptr;
  Acc<T>* exp_avg_sq = nullptr;
  Acc<T>* master = nullptr;  ///< for bfloat16 only
  std::int64_t count = 0;
  std::int64_t decay = 0;  ///< index of its factor in `keep`
};

/// Coefficients of a step, precomputed for the inner loop.
template <class A>
struct AdamWCoefficients {
  A grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  A step_size;   ///< lr / (1 - beta1^k)
  A root_scale;  ///< 1 / sqrt(1 - beta2^k)
  A epsilon;
};

/// Hyperparameters that are constant over a run.
struct AdamWBetas {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

/// The coefficients of a step, from bias1 = 1 - beta1^k and root_bias2 = sqrt(1 - beta2^k). constexpr, so
/// that device code may call it.
template <class A>
constexpr AdamWCoefficients<A> adamw_coefficients(const AdamWBetas& betas, double learning_rate,
                                                  double grad_scale, double bias1, double root_bias2) {
  return {.grad_scale = static_cast<A>(grad_scale),
          .beta1 = static_cast<A>(betas.beta1),
          .one_minus_beta1 = static_cast<A>(1.0 - betas.beta1),
          .beta2 = static_cast<A>(betas.beta2),
          .one_minus_beta2 = static_cast<A>(1.0 - betas.beta2),
          .step_size = static_cast<A>(learning_rate / bias1),
          .root_scale = static_cast<A>(1.0 / root_bias2),
          .epsilon = static_cast<A>(betas.epsilon)};
}

/// Updates all chunks, which must not overlap. All pointers are to memory of the back end; keep[d] is
/// 1 - lr * weight_decay. If `go` is not null and *go is 0, nothing is changed.
template <class Backend, class T>
struct AdamWKernels {
  static void update(const AdamWChunk<T>* chunks, std::int64_t num_chunks,
                     const AdamWCoefficients<Acc<T>>* coefficients, const Acc<T>* keep,
                     const std::int32_t* go);
};

}  // namespace moh
