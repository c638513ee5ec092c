#include <cmath>

#include "ops/cpu/reduce.h"
#include "ops/cpu/row_exp.h"
#include "ops/loss/soft_cross_entropy_kernels.h"

namespace moh {

template <class Backend, class T>
void SoftCrossEntropyKernels<Backend, T>::forward(const T* logits, const Acc<T>* targets, Acc<T>* losses,
                                                  Acc<T>* maxima, Acc<T>* exp_sums, Rows rows) {
  using A = Acc<T>;
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* row = logits + i * rows.width;
      const A* target = targets + i * rows.width;
      const auto [top, sum] = exp_sum_of(row, rows.width);
      const double log_sum = std::log(sum);
      double loss = 0.0;
      for (std::int64_t j = 0; j < rows.width; ++j) {
        const double below_top = static_cast<double>(top) - static_cast<double>(A(row[j]));
        loss += static_cast<double>(target[j]) * (log_sum + below_top);
      }
      losses[i] = static_cast<A>(loss);
      maxima[i] = top;
      exp_sums[i] = static_cast<A>(sum);
    }
  });
}

template <class Backend, class T>
void SoftCrossEntropyKernels<Backend, T>::backward(const Acc<T>* dloss, double normalizer, const T* logits,
                                                   const Acc<T>* targets, const Acc<T>* maxima,
                                                   const Acc<T>* exp_sums, T* dlogits, Rows rows) {
  using A = Acc<T>;
  const double factor = static_cast<double>(*dloss) / normalizer;
  parallel_for(rows.count, row_grain(rows.count, rows.width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* row = logits + i * rows.width;
      const A* target = targets + i * rows.width;
      T* to = dlogits + i * rows.width;
      double mass = 0.0;
      for (std::int64_t j = 0; j < rows.width; ++j) mass += static_cast<double>(target[j]);
      const A top = maxima[i], of_target = static_cast<A>(factor);
      const A share = static_cast<A>(factor * mass / static_cast<double>(exp_sums[i]));
      for_vectors_in<A>(0, rows.width, [=](auto at) {
        at.store(to, share * exp_of_negative(at.load(row) - top) - of_target * at.load(target));
      });
    }
  });
}

template struct SoftCrossEntropyKernels<cpu::MOH_ISA, float>;
template struct SoftCrossEntropyKernels<cpu::MOH_ISA, bfloat16>;
template struct SoftCrossEntropyKernels<cpu::MOH_ISA, double>;

}  // namespace moh
