#pragma once

#include <cstdint>

namespace moh {

/// Groups of logits, one after the other, `kept` of each selected.
struct LogitGroups {
  std::int64_t count, experts, kept;
};

/// Kernels of sigmoid_top_k, for A = float or double; outputs are overwritten. A gate of 0 is that of an
/// expert that is not selected, or so small a one that its gradient is 0, too.
template <class Backend, class A>
struct SigmoidTopKKernels {
  static void forward(const A* logits, A* gates, std::uint8_t* selected, const LogitGroups& groups);
  static void backward(const A* d_gates, const A* logits, const A* gates, A* d_logits, std::int64_t count);
};

}  // namespace moh
