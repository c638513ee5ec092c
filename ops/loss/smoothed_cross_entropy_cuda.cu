#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/divisor_cuda.h"
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

template <class T>
struct SmoothedLossGradient {
  const float* dloss;
  Divisor normalizer;
  RowAccess<const T> logits;
  const std::int64_t* targets;
  LabelWeights weights;
  const float *maxima, *exp_sums;
  RowAccess<T> dlogits;  ///< may be the logits: each element is read before it is written, by one thread
};

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void smoothed_cross_entropy_gradient_kernel(SmoothedLossGradient<T> g) {
  constexpr int kPack = Pack<T>::kCount;
  const std::int64_t i = device::block_x(), target = g.targets[i];
  const bool ignored = target == kIgnoredTarget;
  const double factor = static_cast<double>(*g.dloss) / number_of(g.normalizer);
  const auto every = static_cast<float>(factor * g.weights.every);
  const auto of_target = static_cast<float>(factor * (g.weights.every + g.weights.target));
  const float top = g.maxima[i], share = ignored ? 0.0F : static_cast<float>(factor) / g.exp_sums[i];
  each_piece<T>(g.logits.width, [&](std::int64_t first) {
    float values[kPack];
    g.logits.at(i).load(first, values);
    for (int j = 0; j < kPack; ++j) {
      const float label = first + j == target ? of_target : every;
      values[j] = ignored ? 0.0F : share * expf(values[j] - top) - label;
    }
    g.dlogits.at(i).store(first, values);
  });
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

template <class Backend, class T>
void SmoothedCrossEntropyKernels<Backend, T>::backward(const Acc<T>* dloss, Divisor normalizer,
                                                       const T* logits, const std::int64_t* targets,
                                                       LabelWeights weights, const Acc<T>* maxima,
                                                       const Acc<T>* exp_sums, T* dlogits, Rows rows) {
  const SmoothedLossGradient<T> gradient{dloss,  normalizer, rows_at(logits, rows.width), targets, weights,
                                         maxima, exp_sums,   rows_at(dlogits, rows.width)};
  cuda::launch("smoothed_cross_entropy_gradient", smoothed_cross_entropy_gradient_kernel<T>,
               {.blocks_x = rows.count, .threads = row_threads<T>(rows.width)}, gradient);
}

template struct SmoothedCrossEntropyKernels<Cuda, float>;
template struct SmoothedCrossEntropyKernels<Cuda, bfloat16>;

}  // namespace moh
