#include <cmath>

#include "ops/cpu/reduce.h"
#include "ops/cpu/row_exp.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/smoothed_cross_entropy_kernels.h"

namespace moh {

namespace {

/// The sum of (top - logit) over a row, in double, as its terms cancel in none of the sums they are part of.
template <class T>
[[gnu::always_inline]] inline double sum_below(const T* row, std::int64_t width, Acc<T> top) {
  using A = Acc<T>;
  constexpr std::int64_t kBlock = 1024;
  double sum = 0;
  for (std::int64_t begin = 0; begin < width; begin += kBlock) {
    const std::int64_t end = std::min(width, begin + kBlock);
    Vec<A> block = {};
    std::int64_t j = begin;
    for (; j + kLanes<A> <= end; j += kLanes<A>) block += top - load_as<T>(row + j);
    A rest = sum_lanes<A>(block);
    for (; j < end; ++j) rest += top - A(row[j]);
    sum += static_cast<double>(rest);
  }
  return sum;
}

}  // namespace

template <class Backend, class T>
void SmoothedCrossEntropyKernels<Backend, T>::forward(const T* logits, const std::int64_t* targets,
                                                      LabelWeights weights, Acc<T>* losses, Acc<T>* nll,
                                                      Acc<T>* maxima, Acc<T>* exp_sums, Rows rows) {
  using A = Acc<T>;
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      losses[i] = nll[i] = maxima[i] = exp_sums[i] = A(0);
      if (targets[i] == kIgnoredTarget) continue;
      const T* row = logits + i * rows.width;
      const auto [top, sum] = exp_sum_of(row, rows.width);
      const double log_sum = std::log(sum);
      const double below_top = static_cast<double>(top) - static_cast<double>(A(row[targets[i]]));
      const double smooth = weights.every > 0 ? weights.every * sum_below(row, rows.width, top) : 0.0;
      losses[i] = static_cast<A>(log_sum + weights.target * below_top + smooth);
      nll[i] = static_cast<A>(log_sum + below_top);
      maxima[i] = top;
      exp_sums[i] = static_cast<A>(sum);
    }
  });
}

template struct SmoothedCrossEntropyKernels<cpu::MOH_ISA, float>;
template struct SmoothedCrossEntropyKernels<cpu::MOH_ISA, bfloat16>;
template struct SmoothedCrossEntropyKernels<cpu::MOH_ISA, double>;

}  // namespace moh
