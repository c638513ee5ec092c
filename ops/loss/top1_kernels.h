#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernel of top1_share over N rows of V logits and as many targets.
template <class Backend, class T>
struct Top1Kernels {
  /// hits [N]: 1 where both are largest in the same class, else 0.
  static void compare(const T* logits, const Acc<T>* targets, Acc<T>* hits, Rows rows);
};

}  // namespace moh
