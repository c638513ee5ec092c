#pragma once

#include <cstdint>

#include "ops/optim/adamw_kernels.h"

namespace moh {

/// What decides on an update, and what the decision comes to. All pointers are to memory of the device.
struct AdamWPlan {
  AdamWBetas betas;
  double max_norm = 0;  ///< 0: no clipping
  const double* square_sums = nullptr;
  std::int64_t num_square_sums = 0;
  const double* losses = nullptr;
  std::int64_t num_losses = 0;
  const double* learning_rate = nullptr;
  const double* decays = nullptr;  ///< weight decays
  std::int64_t num_decays = 0;

  std::int64_t* steps = nullptr;  ///< updates so far; counted up by an update
  AdamWCoefficients<float>* coefficients = nullptr;
  float* keep = nullptr;       ///< [num_decays]
  std::int32_t* go = nullptr;  ///< 1 when the weights are to be updated, else 0
  double* outcome = nullptr;   ///< [2]: norm of the gradients, and `go`
};

template <class Backend>
struct AdamWPlanKernels {
  /// Fills in the second half of the plan: the update goes on when the sum of the losses and the norm, the
  /// root of the sum of the square sums, are finite.
  static void decide(const AdamWPlan& plan);
};

}  // namespace moh
