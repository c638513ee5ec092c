#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/optim/adamw.h"

namespace moh {

/// A range of elements of one parameter: the unit of parallel work. G is the type of the gradient.
template <class T, class G = Acc<T>>
struct AdamWChunk {
  T* value = nullptr;
  const G* grad = nullptr;
  Acc<T>* exp_avg = nullptr;     ///< none: not updated by elements (AdamWParameter::by_elements)
  Acc<T>* exp_avg_sq = nullptr;  ///< none: UpdateRule::kLion
  Acc<T>* master = nullptr;      ///< for bfloat16 only
  std::int64_t count = 0;
  std::int64_t rate = 0;  ///< index of its AdamWRate
};

/// Coefficients of a step that all parameters have in common, precomputed for the inner loop.
template <class A>
struct AdamWCoefficients {
  A grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  A root_scale;  ///< 1 / sqrt(1 - beta2^k)
  A epsilon;
  A momentum, one_minus_momentum;  ///< of Muon
  A factor_weight;                 ///< k^-0.8, the weight of a step in the means of Adafactor
};

/// Coefficients of a step for the parameters of one AdamWScale.
template <class A>
struct AdamWRate {
  A keep;       ///< 1 - s lr weight_decay
  A step_size;  ///< s lr / (1 - beta1^k); of other rules than AdamW s lr
};

/// Hyperparameters of a parameter, constant over a run. Parameters with equal ones share an AdamWRate.
struct AdamWScale {
  double weight_decay = 0, learning_rate = 1;
  UpdateRule rule = UpdateRule::kAdamW;
  bool operator==(const AdamWScale&) const = default;
};

/// Hyperparameters of all parameters, constant over a run.
struct AdamWBetas {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0.95;
};

/// The coefficients of a step, from root_bias2 = sqrt(1 - beta2^k) and k^-0.8. constexpr, so that device code
/// may call it.
template <class A>
constexpr AdamWCoefficients<A> adamw_coefficients(const AdamWBetas& betas, double grad_scale,
                                                  double root_bias2, double factor_weight) {
  return {.grad_scale = static_cast<A>(grad_scale),
          .beta1 = static_cast<A>(betas.beta1),
          .one_minus_beta1 = static_cast<A>(1.0 - betas.beta1),
          .beta2 = static_cast<A>(betas.beta2),
          .one_minus_beta2 = static_cast<A>(1.0 - betas.beta2),
          .root_scale = static_cast<A>(1.0 / root_bias2),
          .epsilon = static_cast<A>(betas.epsilon),
          .momentum = static_cast<A>(betas.momentum),
          .one_minus_momentum = static_cast<A>(1.0 - betas.momentum),
          .factor_weight = static_cast<A>(factor_weight)};
}

/// Likewise, from bias1 = 1 - beta1^k.
template <class A>
constexpr AdamWRate<A> adamw_rate(const AdamWScale& scale, double learning_rate, double bias1) {
  const double rate = scale.learning_rate * learning_rate;
  const double bias = scale.rule == UpdateRule::kAdamW ? bias1 : 1.0;
  return {.keep = static_cast<A>(1.0 - rate * scale.weight_decay), .step_size = static_cast<A>(rate / bias)};
}

/// Updates all chunks, which must not overlap. All pointers are to memory of the back end. If `go` is not
/// null and *go is 0, nothing is changed. If `grad` is not null, the chunks are those of one parameter, and
/// it is the gradient of that, in place of their own.
template <class Backend, class T, class G = Acc<T>>
struct AdamWKernels {
  static void update(const AdamWChunk<T, G>* chunks, std::int64_t num_chunks,
                     const AdamWCoefficients<Acc<T>>* coefficients, const AdamWRate<Acc<T>>* rates,
                     const std::int32_t* go, const G* grad = nullptr);
};

}  // namespace moh
