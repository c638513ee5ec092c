#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/loss/divisor.h"
#include "ops/op.h"

namespace moh {

/// For each row of logits and of the teacher's: the maximum, and the sum of e^((logit - maximum) / T). [N].
template <class A>
struct SoftenedRows {
  A *maxima, *exp_sums, *teacher_maxima, *teacher_exp_sums;
};

/// Kernels of kl_divergence over N rows of V logits. Rows whose target is kIgnoredTarget do not count;
/// targets may be null: all do.
template <class Backend, class T>
struct KlDivergenceKernels {
  /// losses [N], KL(p || q) of each row, and what the backward pass needs; 0 for ignored rows.
  static void forward(const T* logits, const T* teacher, const std::int64_t* targets, double temperature,
                      Acc<T>* losses, const SoftenedRows<Acc<T>>& saved, Rows rows);
  /// dlogits = *dloss / divisor * (q - p); dlogits may be the teacher's logits.
  static void backward(const Acc<T>* dloss, Divisor divisor, const T* logits, const T* teacher,
                       const std::int64_t* targets, double temperature, const SoftenedRows<Acc<T>>& saved,
                       T* dlogits, Rows rows);
};

}  // namespace moh
