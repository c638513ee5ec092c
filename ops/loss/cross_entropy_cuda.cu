#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/divisor_cuda.h"

namespace moh {

namespace {

struct RowLosses {
  float *losses, *maxima, *exp_sums;
};

/// One block per row.
template <class T>
MOH_KERNEL(kMostRowThreads)
void cross_entropy_kernel(RowAccess<const T> logits, const std::int64_t* targets, RowLosses out) {
  const std::int64_t i = device::block_x(), target = targets[i];
  const bool ignored = target == kIgnoredTarget;
  const RowAccess<const T> row = logits.at(i);
  ExpSum exp_sum{};
  if (!ignored) exp_sum = exp_sum_of(row, device::shared_memory<ReduceSpace<float>>());
  if (device::thread_x() > 0) return;
  out.losses[i] = ignored ? 0.0F : logf(exp_sum.sum) + (exp_sum.top - static_cast<float>(row.row[target]));
  out.maxima[i] = exp_sum.top;
  out.exp_sums[i] = exp_sum.sum;
}

/// *sum = the sum of `count` losses over the normalizer, in float64. One block.
MOH_KERNEL(kMostRowThreads)
void sum_losses_kernel(const float* losses, std::int64_t count, Divisor normalizer, float* sum) {
  double own = 0;
  for (std::int64_t i = device::thread_x(); i < count; i += device::block_threads()) own += losses[i];
  own = reduce_block(own, Sum{}, device::shared_memory<ReduceSpace<double>>()->values);
  if (device::thread_x() == 0) *sum = static_cast<float>(own / number_of(normalizer));
}

template <class T>
struct LossGradient {
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
void cross_entropy_gradient_kernel(LossGradient<T> g) {
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
void CrossEntropyKernels<Backend, T>::forward(const T* logits, const std::int64_t* targets, Acc<T>* losses,
                                              Acc<T>* maxima, Acc<T>* exp_sums, Rows rows) {
  cuda::launch("cross_entropy", cross_entropy_kernel<T>,
               {.blocks_x = rows.count,
                .threads = row_threads<T>(rows.width),
                .shared_bytes = 2 * sizeof(ReduceSpace<float>)},
               rows_at(logits, rows.width), targets, RowLosses{losses, maxima, exp_sums});
}

template <class Backend, class T>
void CrossEntropyKernels<Backend, T>::reduce(const Acc<T>* losses, std::int64_t count, Divisor normalizer,
                                             Acc<T>* sum) {
  cuda::launch("sum_losses", sum_losses_kernel,
               {.threads = kMostRowThreads, .shared_bytes = sizeof(ReduceSpace<double>)}, losses, count,
               normalizer, sum);
}

template <class Backend, class T>
void CrossEntropyKernels<Backend, T>::backward(const Acc<T>* dloss, Divisor normalizer, const T* logits,
                                               const std::int64_t* targets, LabelWeights weights,
                                               const Acc<T>* maxima, const Acc<T>* exp_sums, T* dlogits,
                                               Rows rows) {
  const LossGradient<T> gradient{dloss,  normalizer, rows_at(logits, rows.width), targets, weights,
                                 maxima, exp_sums,   rows_at(dlogits, rows.width)};
  cuda::launch("cross_entropy_gradient", cross_entropy_gradient_kernel<T>,
               {.blocks_x = rows.count, .threads = row_threads<T>(rows.width)}, gradient);
}

template struct CrossEntropyKernels<Cuda, float>;
template struct CrossEntropyKernels<Cuda, bfloat16>;

}  // namespace moh
