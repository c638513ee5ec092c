#include "core/cuda/tag.h"
#include "ops/device/kernel.h"
#include "ops/optim/ema_kernels.h"

namespace moh {

namespace {

constexpr int kThreads = 256;

/// One block per chunk.
template <class T>
MOH_KERNEL(kThreads)
void ema_kernel(const EmaChunk<T>* chunks, float rate, const double* rate_at, const double* go) {
  if (go != nullptr && *go == 0.0) return;
  if (rate_at != nullptr) rate = static_cast<float>(*rate_at);
  const EmaChunk<T> at = chunks[device::block_x()];
  for (std::int64_t i = device::thread_x(); i < at.count; i += device::block_threads()) {
    const float before = at.average[i];
    at.average[i] = before + rate * (static_cast<float>(at.value[i]) - before);
  }
}

}  // namespace

template <class Backend, class T>
void EmaKernels<Backend, T>::update(const EmaChunk<T>* chunks, std::int64_t num_chunks, Acc<T> rate,
                                    const double* rate_at, const double* go) {
  cuda::launch("ema", ema_kernel<T>, {.blocks_x = num_chunks, .threads = kThreads, .indirect = true}, chunks,
               rate, rate_at, go);
}

template struct EmaKernels<Cuda, float>;
template struct EmaKernels<Cuda, bfloat16>;

}  // namespace moh
