#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/reduce.h"
#include "ops/device/kernel.h"
#include "ops/optim/adamw_plan_kernels.h"
#include "ops/optim/clip_grad_norm_kernels.h"

namespace moh {

namespace {

constexpr int kThreads = 256;

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

/// One block; all threads sum the squares, one thread makes the decision.
MOH_KERNEL(kThreads) void adamw_plan_kernel(AdamWPlan plan) {
  double squares = 0;
  for (std::int64_t i = device::thread_x(); i < plan.num_square_sums; i += device::block_threads())
    squares += plan.square_sums[i];
  squares = reduce_block(squares, Sum{}, device::shared_memory<double>());
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
      adamw_coefficients<float>(plan.betas, grad_scale, sqrt(1.0 - power(plan.betas.beta2, *plan.steps)));
  for (std::int64_t i = 0; i < plan.num_scales; ++i)
    plan.rates[i] = adamw_rate<float>(plan.scales[i], *plan.learning_rate, bias1);
}

}  // namespace

template <class Backend>
void AdamWPlanKernels<Backend>::decide(const AdamWPlan& plan) {
  cuda::launch("adamw_plan", adamw_plan_kernel,
               {.threads = kThreads, .shared_bytes = kThreads / device::kWarp * sizeof(double)}, plan);
}

template struct AdamWPlanKernels<Cuda>;

}  // namespace moh
