#include <cmath>

#include "ops/cpu/reduce.h"
#include "ops/cpu/row_exp.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/cross_entropy_kernels.h"

namespace moh {

template <class Backend, class T>
void CrossEntropyKernels<Backend, T>::forward(const T* logits, const std::int64_t* targets, Acc<T>* losses,
                                              Acc<T>* maxima, Acc<T>* exp_sums, Rows rows) {
  using A = Acc<T>;
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      losses[i] = maxima[i] = exp_sums[i] = A(0);
      if (targets[i] == kIgnoredTarget) continue;
      const T* row = logits + i * rows.width;
      const auto [top, sum] = exp_sum_of(row, rows.width);
      const double below_top = static_cast<double>(top) - static_cast<double>(A(row[targets[i]]));
      losses[i] = static_cast<A>(std::log(sum) + below_top);
      maxima[i] = top;
      exp_sums[i] = static_cast<A>(sum);
    }
  });
}

template <class Backend, class T>
void CrossEntropyKernels<Backend, T>::reduce(const Acc<T>* losses, std::int64_t count, Divisor normalizer,
                                             Acc<T>* sum) {
  double total = 0.0;
  for (std::int64_t i = 0; i < count; ++i) total += static_cast<double>(losses[i]);
  *sum = static_cast<Acc<T>>(total / (normalizer.value / normalizer.over));
}

template <class Backend, class T>
void CrossEntropyKernels<Backend, T>::backward(const Acc<T>* dloss, Divisor normalizer, const T* logits,
                                               const std::int64_t* targets, LabelWeights weights,
                                               const Acc<T>* maxima, const Acc<T>* exp_sums, T* dlogits,
                                               Rows rows) {
  using A = Acc<T>;
  const double factor = static_cast<double>(*dloss) / (normalizer.value / normalizer.over);
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* row = logits + i * rows.width;
      T* to = dlogits + i * rows.width;
      if (targets[i] == kIgnoredTarget) {
        for (std::int64_t j = 0; j < rows.width; ++j) to[j] = A(0);
        continue;
      }
      const A top = maxima[i], share = static_cast<A>(factor / static_cast<double>(exp_sums[i]));
      const A every = static_cast<A>(factor * weights.every);
      const A of_target = share * exp_of_negative(splat(A(row[targets[i]]) - top))[0] -
                          static_cast<A>(factor * (weights.every + weights.target));
      for_vectors_in<A>(0, rows.width,
                        [=](auto at) { at.store(to, share * exp_of_negative(at.load(row) - top) - every); });
      to[targets[i]] = of_target;
    }
  });
}

template struct CrossEntropyKernels<cpu::MOH_ISA, float>;
template struct CrossEntropyKernels<cpu::MOH_ISA, bfloat16>;
template struct CrossEntropyKernels<cpu::MOH_ISA, double>;

}  // namespace moh
