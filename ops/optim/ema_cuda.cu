#include "core/cuda/run.h"
#include "core/cuda/tag.h"
#include "ops/cuda/block_sizes.h"
#include "ops/device/kernel.h"
#include "ops/optim/ema_kernels.h"

namespace moh {

namespace {

/// The average of kCount elements from number i on.
template <int kCount, class T>
MOH_DEVICE void average_run(const EmaChunk<T>& at, std::int64_t i, float rate) {
  cuda::Run<float, kCount> average = cuda::load_run<kCount>(at.average + i);
  const cuda::Run<T, kCount> value = cuda::load_run<kCount>(at.value + i);
  MOH_UNROLL
  for (int j = 0; j < kCount; ++j) {
    const float before = average.values[j];
    average.values[j] = before + rate * (static_cast<float>(value.values[j]) - before);
  }
  store_run(at.average + i, average);
}

/// One block per chunk.
template <class T>
MOH_KERNEL(kBlockThreads)
void ema_kernel(const EmaChunk<T>* chunks, float rate, const double* rate_at, const double* go) {
  if (go != nullptr && *go == 0.0) return;
  if (rate_at != nullptr) rate = static_cast<float>(*rate_at);
  const EmaChunk<T> at = chunks[device::block_x()];
  constexpr int kCount = cuda::kRunOf<T, float>;
  const std::int64_t in_runs = cuda::runs_fit(at.average, at.value) ? at.count / kCount * kCount : 0;
  for (std::int64_t i = device::thread_x() * kCount; i < in_runs; i += device::block_threads() * kCount)
    average_run<kCount>(at, i, rate);
  for (std::int64_t i = in_runs + device::thread_x(); i < at.count; i += device::block_threads())
    average_run<1>(at, i, rate);
}

}  // namespace

template <class Backend, class T>
void EmaKernels<Backend, T>::update(const EmaChunk<T>* chunks, std::int64_t num_chunks, Acc<T> rate,
                                    const double* rate_at, const double* go) {
  cuda::launch("ema", ema_kernel<T>, {.blocks_x = num_chunks, .threads = kBlockThreads, .indirect = true},
               chunks, rate, rate_at, go);
}

template struct EmaKernels<Cuda, float>;
template struct EmaKernels<Cuda, bfloat16>;

}  // namespace moh
