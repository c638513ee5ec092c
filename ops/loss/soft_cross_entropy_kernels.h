#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernels of soft_cross_entropy over N rows of V logits and as many targets.
template <class Backend, class T>
struct SoftCrossEntropyKernels {
  /// losses [N]; maxima [N] and exp_sums [N], the sums of e^(logit - maximum).
  static void forward(const T* logits, const Acc<T>* targets, Acc<T>* losses, Acc<T>* maxima,
                      Acc<T>* exp_sums, Rows rows);
  /// dlogits = *dloss / normalizer times (softmax(logits) * sum of the row's targets - targets).
  static void backward(const Acc<T>* dloss, double normalizer, const T* logits, const Acc<T>* targets,
                       const Acc<T>* maxima, const Acc<T>* exp_sums, T* dlogits, Rows rows);
};

}  // namespace moh
