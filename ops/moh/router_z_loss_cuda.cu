#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/moh/router_z_loss_kernels.h"

// A thread has the logits of a token, which are few.

namespace moh {

namespace {

template <class T>
struct LogSum {
  const T* logits;
  float* log_sums;
  std::int64_t width;

  MOH_DEVICE void operator()(std::int64_t n) const {
    const T* const z = logits + n * width;
    float top = -INFINITY, sum = 0;
    for (std::int64_t e = 0; e < width; ++e) top = fmaxf(top, static_cast<float>(z[e]));
    for (std::int64_t e = 0; e < width; ++e) sum += expf(static_cast<float>(z[e]) - top);
    log_sums[n] = top + logf(sum);
  }
};

/// *loss = the mean of the squares, added in float64. One block.
MOH_KERNEL(kMostRowThreads) void mean_square_kernel(const float* log_sums, std::int64_t count, float* loss) {
  double sum = 0;
  for (std::int64_t n = device::thread_x(); n < count; n += device::block_threads())
    sum += static_cast<double>(log_sums[n]) * static_cast<double>(log_sums[n]);
  sum = reduce_block(sum, Sum{}, device::shared_memory<ReduceSpace<double>>()->values);
  if (device::thread_x() == 0)
    *loss = count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0.0F;
}

template <class T>
struct LogSumGradient {
  const float* dloss;
  const T* logits;
  const float* log_sums;
  T* dlogits;
  Rows rows;

  MOH_DEVICE void operator()(std::int64_t n) const {
    const float log_sum = log_sums[n], factor = 2.0F * *dloss / static_cast<float>(rows.count) * log_sum;
    for (std::int64_t i = n * rows.width; i < (n + 1) * rows.width; ++i)
      dlogits[i] = factor * expf(static_cast<float>(logits[i]) - log_sum);
  }
};

}  // namespace

template <class Backend, class T>
void RouterZLossKernels<Backend, T>::forward(const T* logits, Acc<T>* log_sums, Acc<T>* loss, Rows rows) {
  cuda::launch_each("router_z_log_sums", rows.count, LogSum<T>{logits, log_sums, rows.width});
  cuda::launch("router_z_loss", mean_square_kernel,
               {.threads = kMostRowThreads, .shared_bytes = sizeof(ReduceSpace<double>)}, log_sums,
               rows.count, loss);
}

template <class Backend, class T>
void RouterZLossKernels<Backend, T>::backward(const Acc<T>* dloss, const T* logits, const Acc<T>* log_sums,
                                              T* dlogits, Rows rows) {
  cuda::launch_each("router_z_loss_gradient", rows.count,
                    LogSumGradient<T>{dloss, logits, log_sums, dlogits, rows});
}

template struct RouterZLossKernels<Cuda, float>;
template struct RouterZLossKernels<Cuda, bfloat16>;

}  // namespace moh
