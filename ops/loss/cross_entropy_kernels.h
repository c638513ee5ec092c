#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/loss/divisor.h"
#include "ops/op.h"

namespace moh {

/// Weights of a row's -log p in its loss, which sum to 1 over the row. By default those of the target alone.
struct LabelWeights {
  double every = 0;   ///< of each label: eps / (V - 1)
  double target = 1;  ///< of the target, in addition: 1 - eps - eps / (V - 1)
};

/// Kernels of cross_entropy over N rows of V logits. targets [N] are in [0, V) or kIgnoredTarget.
template <class Backend, class T>
struct CrossEntropyKernels {
  /// losses [N]; maxima [N] and exp_sums [N], the sums of e^(logit - maximum). All are overwritten, for
  /// ignored rows with 0.
  static void forward(const T* logits, const std::int64_t* targets, Acc<T>* losses, Acc<T>* maxima,
                      Acc<T>* exp_sums, Rows rows);
  /// *sum = the sum of `count` losses, divided by normalizer.
  static void reduce(const Acc<T>* losses, std::int64_t count, Divisor normalizer, Acc<T>* sum);
  /// dlogits = *dloss / normalizer times (softmax(logits) - weights); dlogits may be logits.
  static void backward(const Acc<T>* dloss, Divisor normalizer, const T* logits, const std::int64_t* targets,
                       LabelWeights weights, const Acc<T>* maxima, const Acc<T>* exp_sums, T* dlogits,
                       Rows rows);
};

}  // namespace moh
