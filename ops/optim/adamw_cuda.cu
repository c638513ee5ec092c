#include <cmath>

#include "core/cuda/run.h"
#include "core/cuda/tag.h"
#include "ops/cuda/block_sizes.h"
#include "ops/device/kernel.h"
#include "ops/optim/adamw_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

namespace {

/// The update of kCount elements from number i on, by AdamW, or by Lion where there are no squares.
template <int kCount, class T, class G>
MOH_DEVICE void update_run(const AdamWChunk<T, G>& at, std::int64_t i, const AdamWCoefficients<float>& c,
                           const AdamWRate<float>& rate) {
  using cuda::load_run;
  cuda::Run<T, kCount> value = load_run<kCount>(at.value + i);
  cuda::Run<float, kCount> exp_avg = load_run<kCount>(at.exp_avg + i), exp_avg_sq = {}, master = {};
  const bool lion = at.exp_avg_sq == nullptr;
  if (!lion) exp_avg_sq = load_run<kCount>(at.exp_avg_sq + i);
  if (at.master != nullptr) master = load_run<kCount>(at.master + i);
  const cuda::Run<G, kCount> grad = load_run<kCount>(at.grad + i);
  MOH_UNROLL
  for (int j = 0; j < kCount; ++j) {
    const float g = c.grad_scale * static_cast<float>(grad.values[j]);
    const float m = c.beta1 * exp_avg.values[j] + c.one_minus_beta1 * g;
    const float v = c.beta2 * exp_avg_sq.values[j] + c.one_minus_beta2 * (g * g);
    const float sign = (m > 0 ? 1.0F : 0.0F) - (m < 0 ? 1.0F : 0.0F);
    const float move = rate.step_size * (lion ? sign : m / (sqrtf(v) * c.root_scale + c.epsilon));
    exp_avg.values[j] = lion ? c.beta2 * exp_avg.values[j] + c.one_minus_beta2 * g : m;
    exp_avg_sq.values[j] = v;
    const float before = at.master != nullptr ? master.values[j] : static_cast<float>(value.values[j]);
    const float after = before * rate.keep - move;
    master.values[j] = after;
    value.values[j] = after;
  }
  store_run(at.exp_avg + i, exp_avg);
  if (!lion) store_run(at.exp_avg_sq + i, exp_avg_sq);
  if (at.master != nullptr) store_run(at.master + i, master);
  store_run(at.value + i, value);
}

/// One block per chunk.
template <class T, class G>
MOH_KERNEL(kBlockThreads)
void adamw_kernel(const AdamWChunk<T, G>* chunks, const AdamWCoefficients<float>* coefficients,
                  const AdamWRate<float>* rates, const std::int32_t* go, const G* grad) {
  if (go != nullptr && *go == 0) return;
  const AdamWCoefficients<float> c = *coefficients;
  AdamWChunk<T, G> at = chunks[device::block_x()];
  if (at.exp_avg == nullptr) return;
  if (grad != nullptr) at.grad = grad + device::block_x() * kOptimizerChunk;
  const AdamWRate<float> rate = rates[at.rate];
  constexpr int kCount = cuda::kRunOf<T, float>;
  const bool fits = cuda::runs_fit(at.value, at.grad, at.exp_avg, at.exp_avg_sq, at.master);
  const std::int64_t in_runs = fits ? at.count / kCount * kCount : 0;
  for (std::int64_t i = device::thread_x() * kCount; i < in_runs; i += device::block_threads() * kCount)
    update_run<kCount>(at, i, c, rate);
  for (std::int64_t i = in_runs + device::thread_x(); i < at.count; i += device::block_threads())
    update_run<1>(at, i, c, rate);
}

}  // namespace

template <class Backend, class T, class G>
void AdamWKernels<Backend, T, G>::update(const AdamWChunk<T, G>* chunks, std::int64_t num_chunks,
                                         const AdamWCoefficients<Acc<T>>* coefficients,
                                         const AdamWRate<Acc<T>>* rates, const std::int32_t* go,
                                         const G* grad) {
  cuda::launch("adamw", adamw_kernel<T, G>,
               {.blocks_x = num_chunks, .threads = kBlockThreads, .indirect = true}, chunks, coefficients,
               rates, go, grad);
}

template struct AdamWKernels<Cuda, float>;
template struct AdamWKernels<Cuda, bfloat16>;
template struct AdamWKernels<Cuda, bfloat16, bfloat16>;

}  // namespace moh
