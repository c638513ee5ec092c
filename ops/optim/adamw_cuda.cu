#include <cmath>

#include "core/cuda/tag.h"
#include "ops/device/kernel.h"
#include "ops/optim/adamw_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

namespace {

constexpr int kThreads = 256;

/// One block per chunk.
template <class T, class G>
MOH_KERNEL(kThreads)
void adamw_kernel(const AdamWChunk<T, G>* chunks, const AdamWCoefficients<float>* coefficients,
                  const AdamWRate<float>* rates, const std::int32_t* go, const G* grad) {
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<float> c = *coefficients;
  AdamWChunk<T, G> at = chunks[device::block_x()];
  if (grad != nullptr) at.grad = grad + device::block_x() * kOptimizerChunk;
  const AdamWRate<float> rate = rates[at.rate];
  for (std::int64_t i = device::thread_x(); i < at.count; i += device::block_threads()) {
    const float g = c.grad_scale * static_cast<float>(at.grad[i]);
    const float m = c.beta1 * at.exp_avg[i] + c.one_minus_beta1 * g;
    const float v = c.beta2 * at.exp_avg_sq[i] + c.one_minus_beta2 * (g * g);
    at.exp_avg[i] = m;
    at.exp_avg_sq[i] = v;
    const float move = rate.step_size * (m / (sqrtf(v) * c.root_scale + c.epsilon));
    const float before = at.master != nullptr ? at.master[i] : static_cast<float>(at.value[i]);
    const float after = before * rate.keep - move;
    if (at.master != nullptr) at.master[i] = after;
    at.value[i] = after;
  }
}

}  // namespace

template <class Backend, class T, class G>
void AdamWKernels<Backend, T, G>::update(const AdamWChunk<T, G>* chunks, std::int64_t num_chunks,
                                         const AdamWCoefficients<Acc<T>>* coefficients,
                                         const AdamWRate<Acc<T>>* rates, const std::int32_t* go,
                                         const G* grad) {
  cuda::launch("adamw", adamw_kernel<T, G>, {.blocks_x = num_chunks, .threads = kThreads, .indirect = true},
               chunks, coefficients, rates, go, grad);
}

template struct AdamWKernels<Cuda, float>;
template struct AdamWKernels<Cuda, bfloat16>;
template struct AdamWKernels<Cuda, bfloat16, bfloat16>;

}  // namespace moh
