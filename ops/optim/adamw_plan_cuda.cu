#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/device/kernel.h"
#include "ops/optim/adamw_plan_kernels.h"
#include "ops/optim/clip_grad_norm_kernels.h"

namespace moh {

namespace {

MOH_DEVICE bool is_finite(double x) {
  return x - x == 0.0;
}

/// base^exponent. pow() would need more registers than __launch_bounds__ leaves a thread.
MOH_DEVICE double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

/// The sum of the square sums, by all threads of a block.
MOH_DEVICE double sum_by_block(const double* square_sums, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = device::thread_x(); i < count; i += device::block_threads())
    squares += square_sums[i];
  return reduce_block(squares, Sum{}, device::shared_memory<double>());
}

/// One block.
MOH_KERNEL(kBlockThreads)
void adamw_sum_kernel(const double* square_sums, std::int64_t count, double* sum) {
  const double squares = sum_by_block(square_sums, count);
  if (device::thread_x() == 0) *sum = squares;
}

/// One block.
MOH_KERNEL(kBlockThreads)
void adamw_require_finite_kernel(const double* square_sums, std::int64_t count, std::int32_t* go) {
  const double squares = sum_by_block(square_sums, count);
  if (device::thread_x() == 0 && !is_finite(squares)) *go = 0;
}

/// One block.
MOH_KERNEL(kBlockThreads)
void adamw_conclude_kernel(const double* square_sums, std::int64_t count, const std::int32_t* go,
                           double* outcome) {
  const double squares = sum_by_block(square_sums, count);
  if (device::thread_x() > 0) return;
  outcome[0] = sqrt(squares);
  outcome[1] = is_finite(squares) ? *go : 0;
}

/// One block; all threads sum the squares, one thread makes the decision.
MOH_KERNEL(kBlockThreads) void adamw_plan_kernel(AdamWPlan plan) {
  const double squares = sum_by_block(plan.square_sums, plan.num_square_sums);
  if (device::thread_x() > 0) return;
  double loss = 0;
  for (std::int64_t i = 0; i < plan.num_losses; ++i) loss += plan.losses[i];
  const double norm = sqrt(squares);
  const bool go = is_finite(loss) && is_finite(norm) && loss <= plan.limits[0] && norm <= plan.limits[1];
  *plan.go = go ? 1 : 0;
  plan.outcome[0] = norm;
  plan.outcome[1] = go ? 1 : 0;
  if (!go) return;
  *plan.steps += 1;
  const double bias1 = 1.0 - power(plan.betas.beta1, *plan.steps);
  const double grad_scale = plan.max_norm > 0 ? clip_scale(norm, plan.max_norm) : 1.0;
  *plan.coefficients =
      adamw_coefficients<float>(plan.betas, grad_scale, sqrt(1.0 - power(plan.betas.beta2, *plan.steps)),
                                exp(-0.8 * log(static_cast<double>(*plan.steps))));
  for (std::int64_t i = 0; i < plan.num_scales; ++i)
    plan.rates[i] = adamw_rate<float>(plan.scales[i], *plan.learning_rate, bias1);
}

}  // namespace

constexpr cuda::LaunchShape kOneBlock = {.threads = kBlockThreads, .shared_bytes = kBlockSumBytes<double>};

template <class Backend>
void AdamWPlanKernels<Backend>::decide(const AdamWPlan& plan) {
  cuda::launch("adamw_plan", adamw_plan_kernel, kOneBlock, plan);
}

template <class Backend>
void AdamWPlanKernels<Backend>::sum(const double* square_sums, std::int64_t num_square_sums, double* sum) {
  cuda::launch("adamw_sum", adamw_sum_kernel, kOneBlock, square_sums, num_square_sums, sum);
}

template <class Backend>
void AdamWPlanKernels<Backend>::require_finite(const double* square_sums, std::int64_t num_square_sums,
                                               std::int32_t* go) {
  cuda::launch("adamw_require_finite", adamw_require_finite_kernel, kOneBlock, square_sums, num_square_sums,
               go);
}

template <class Backend>
void AdamWPlanKernels<Backend>::conclude(const double* square_sums, std::int64_t num_square_sums,
                                         const std::int32_t* go, double* outcome) {
  cuda::launch("adamw_conclude", adamw_conclude_kernel, kOneBlock, square_sums, num_square_sums, go, outcome);
}

template struct AdamWPlanKernels<Cuda>;

}  // namespace moh
