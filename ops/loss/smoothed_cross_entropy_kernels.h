#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/loss/cross_entropy_kernels.h"
#include "ops/op.h"

namespace moh {

/// Kernels of smoothed_cross_entropy over N rows of V logits, whose reduction and gradient are those of
/// CrossEntropyKernels. targets [N] are in [0, V) or kIgnoredTarget.
template <class Backend, class T>
struct SmoothedCrossEntropyKernels {
  /// losses [N]; nll [N], without smoothing; maxima [N] and exp_sums [N], the sums of e^(logit - maximum).
  /// All are overwritten, for ignored rows with 0.
  static void forward(const T* logits, const std::int64_t* targets, LabelWeights weights, Acc<T>* losses,
                      Acc<T>* nll, Acc<T>* maxima, Acc<T>* exp_sums, Rows rows);
};

}  // namespace moh
