#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernels of top1 and top1_share over N rows of V logits.
template <class Backend, class T>
struct Top1Kernels {
  /// classes [N]: that of the largest logit of each row.
  static void largest(const T* logits, std::int64_t* classes, Rows rows);
  /// hits [N]: 1 where the logits and as many targets are largest in the same class, else 0.
  static void compare(const T* logits, const Acc<T>* targets, Acc<T>* hits, Rows rows);
};

}  // namespace moh
