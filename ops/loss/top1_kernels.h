#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// The kernel of top1_share over N rows of V logits.
template <class Backend, class T>
struct Top1Kernels {
  /// hits [N]: 1 where the logits and as many targets are largest in the same class, else 0.
  static void compare(const T* logits, const Acc<T>* targets, Acc<T>* hits, Rows rows);
};

}  // namespace moh
