#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// x, y, dy, dx [N, d]: heads of all tokens. logits, dlogits [N], or [N, d] with `each_element`.
struct GatedHeads {
  std::int64_t count, head_dim;
  bool each_element;
};

/// Kernels of sigmoid_gate; outputs are overwritten.
template <class Backend, class T>
struct SigmoidGateKernels {
  static void forward(const T* x, const T* logits, T* y, GatedHeads shape);
  static void backward(const T* dy, const T* x, const T* logits, T* dx, T* dlogits, GatedHeads shape);
};

}  // namespace moh
