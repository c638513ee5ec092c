#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/smoothed_cross_entropy_kernels.h"

namespace moh {

namespace {

struct SmoothedRowLosses {
  float *losses, *nll, *maxima, *exp_sums;
};

/// One block per row. What logits are below the largest one is added in float64, as it is in the loss of a
/// long row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void smoothed_cross_entropy_kernel(RowAccess<const T> logits, const std::int64_t* targets,
                                   LabelWeights weights, SmoothedRowLosses out) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), target = targets[i];
  const bool ignored = target == kIgnoredTarget;
  const RowAccess<const T> row = logits.at(i);
  ExpSum exp_sum{};
  double own = 0;
  if (!ignored) {
    exp_sum = exp_sum_of(row, device::shared_memory<ReduceSpace<float>>());
    each_piece<T>(weights.every > 0 ? row.width : 0, [&](std::int64_t first) {
      float values[kPack];
      row.load(first, values);
      for (int j = 0; j < kPack && first + j < row.width; ++j) own += exp_sum.top - values[j];
    });
    device::sync_block();  // the space of the sums above is used again
    own = reduce_block(own, Sum{}, device::shared_memory<ReduceSpace<double>>()->values);
  }
  if (device::thread_x() > 0) return;
  const float log_sum = ignored ? 0.0F : logf(exp_sum.sum);
  const float below_top = ignored ? 0.0F : exp_sum.top - static_cast<float>(row.row[target]);
  out.losses[i] = static_cast<float>(log_sum + weights.target * below_top + weights.every * own);
  out.nll[i] = log_sum + below_top;
  out.maxima[i] = exp_sum.top;
  out.exp_sums[i] = exp_sum.sum;
}

}  // namespace

template <class Backend, class T>
void SmoothedCrossEntropyKernels<Backend, T>::forward(const T* logits, const std::int64_t* targets,
                                                      LabelWeights weights, Acc<T>* losses, Acc<T>* nll,
                                                      Acc<T>* maxima, Acc<T>* exp_sums, Rows rows) {
  cuda::launch("smoothed_cross_entropy", smoothed_cross_entropy_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = 2 * sizeof(ReduceSpace<double>)},
               rows_at(logits, rows.width), targets, weights,
               SmoothedRowLosses{losses, nll, maxima, exp_sums});
}

template struct SmoothedCrossEntropyKernels<Cuda, float>;
template struct SmoothedCrossEntropyKernels<Cuda, bfloat16>;

}  // namespace moh
