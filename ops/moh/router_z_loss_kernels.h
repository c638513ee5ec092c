#pragma once

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Kernels of router_z_loss over N rows of E logits; outputs are overwritten. log_sums [N] are ln sum exp.
template <class Backend, class T>
struct RouterZLossKernels {
  static void forward(const T* logits, Acc<T>* log_sums, Acc<T>* loss, Rows rows);
  static void backward(const Acc<T>* dloss, const T* logits, const Acc<T>* log_sums, T* dlogits, Rows rows);
};

}  // namespace moh
