#pragma once

#include <cstdint>

#include "ops/optim/adamw_kernels.h"

namespace moh {

/// Inputs and results of the decision whether to update (gradients and losses finite). All pointers are to
/// device memory.
struct AdamWPlan {
  AdamWBetas betas;
  double max_norm = 0;  ///< 0: no clipping
  const double* square_sums = nullptr;
  std::int64_t num_square_sums = 0;
  const double* losses = nullptr;
  std::int64_t num_losses = 0;
  const double* limits = nullptr;  ///< [2]: largest sum of the losses, and largest norm, of an update
  const double* learning_rate = nullptr;
  const AdamWScale* scales = nullptr;
  std::int64_t num_scales = 0;

  std::int64_t* steps = nullptr;  ///< updates so far; incremented by an update
  AdamWCoefficients<float>* coefficients = nullptr;
  AdamWRate<float>* rates = nullptr;  ///< [num_scales]
  std::int32_t* go = nullptr;         ///< 1 if the weights are to be updated, else 0
  double* outcome = nullptr;          ///< [2]: global L2 norm of the gradients, and `go`
};

template <class Backend>
struct AdamWPlanKernels {
  /// Computes the results of the plan: there is an update if the sum of the losses and the global L2 norm,
  /// the square root of the sum of the square sums, are finite and not above the limits.
  static void decide(const AdamWPlan& plan);
  /// *sum = the sum of the square sums.
  static void sum(const double* square_sums, std::int64_t num_square_sums, double* sum);
  /// Sets *go to 0 if the sum of the square sums is not finite.
  static void require_finite(const double* square_sums, std::int64_t num_square_sums, std::int32_t* go);
  /// outcome[0] = the square root of the sum of the square sums, outcome[1] = *go, or 0 if that is not
  /// finite.
  static void conclude(const double* square_sums, std::int64_t num_square_sums, const std::int32_t* go,
                       double* outcome);
};

}  // namespace moh
