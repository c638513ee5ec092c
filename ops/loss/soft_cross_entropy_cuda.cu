#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/loss/soft_cross_entropy_kernels.h"

namespace moh {

namespace {

struct SoftRowLosses {
  float *losses, *maxima, *exp_sums;
};

/// One block per row. Terms of the loss are added in float64, as they cancel.
template <class T>
MOH_KERNEL(kMostRowThreads)
void soft_cross_entropy_kernel(RowAccess<const T> logits, const float* targets, SoftRowLosses out) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x();
  const RowAccess<const T> row = logits.at(i);
  const ExpSum exp_sum = exp_sum_of(row, device::shared_memory<ReduceSpace<float>>());
  const float log_sum = logf(exp_sum.sum);
  double own = 0;
  each_piece<T>(row.width, [&](std::int64_t first) {
    float values[kPack];
    row.load(first, values);
    for (int j = 0; j < kPack && first + j < row.width; ++j)
      own += static_cast<double>(targets[i * row.width + first + j]) * (log_sum + (exp_sum.top - values[j]));
  });
  device::sync_block();  // the space of the sums above is used again
  own = reduce_block(own, Sum{}, device::shared_memory<ReduceSpace<double>>()->values);
  if (device::thread_x() > 0) return;
  out.losses[i] = static_cast<float>(own);
  out.maxima[i] = exp_sum.top;
  out.exp_sums[i] = exp_sum.sum;
}

template <class T>
struct SoftLossGradient {
  const float* dloss;
  double normalizer;
  RowAccess<const T> logits;
  const float *targets, *maxima, *exp_sums;
  RowAccess<T> dlogits;
};

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void soft_cross_entropy_gradient_kernel(SoftLossGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), width = g.logits.width;
  const float* target = g.targets + i * width;
  double own = 0;
  for (std::int64_t j = device::thread_x(); j < width; j += device::block_threads()) own += target[j];
  const double mass = reduce_block(own, Sum{}, device::shared_memory<ReduceSpace<double>>()->values);
  const double factor = static_cast<double>(*g.dloss) / g.normalizer;
  const auto of_target = static_cast<float>(factor);
  const float top = g.maxima[i], share = static_cast<float>(factor * mass / g.exp_sums[i]);
  each_piece<T>(width, [&](std::int64_t first) {
    float values[kPack];
    g.logits.at(i).load(first, values);
    for (int j = 0; j < kPack; ++j) {
      const float t = first + j < width ? target[first + j] : 0.0F;
      values[j] = share * expf(values[j] - top) - of_target * t;
    }
    g.dlogits.at(i).store(first, values);
  });
}

}  // namespace

template <class Backend, class T>
void SoftCrossEntropyKernels<Backend, T>::forward(const T* logits, const Acc<T>* targets, Acc<T>* losses,
                                                  Acc<T>* maxima, Acc<T>* exp_sums, Rows rows) {
  cuda::launch("soft_cross_entropy", soft_cross_entropy_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = 2 * sizeof(ReduceSpace<double>)},
               rows_at(logits, rows.width), targets, SoftRowLosses{losses, maxima, exp_sums});
}

template <class Backend, class T>
void SoftCrossEntropyKernels<Backend, T>::backward(const Acc<T>* dloss, double normalizer, const T* logits,
                                                   const Acc<T>* targets, const Acc<T>* maxima,
                                                   const Acc<T>* exp_sums, T* dlogits, Rows rows) {
  const SoftLossGradient<T> gradient{dloss,  normalizer, rows_at(logits, rows.width), targets,
                                     maxima, exp_sums,   rows_at(dlogits, rows.width)};
  cuda::launch("soft_cross_entropy_gradient", soft_cross_entropy_gradient_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = sizeof(ReduceSpace<double>)},
               gradient);
}

template struct SoftCrossEntropyKernels<Cuda, float>;
template struct SoftCrossEntropyKernels<Cuda, bfloat16>;

}  // namespace moh
