#pragma once

#include <cstdint>

namespace moh {

/// Sizes and operands of router_statistics; absent tensors are null. A is float or double.
template <class A>
struct RouterStatisticsArgs {
  std::int64_t tokens = 0, routed = 0, kept = 0, groups = 1;
  const A* routed_logits = nullptr;   ///< [N, E]
  const A* type_logits = nullptr;     ///< [N, 2]
  const std::int32_t* top = nullptr;  ///< [N, K]
  A* each = nullptr;                  ///< [N, 2], of each token: scratch of a GPU
  A* means = nullptr;                 ///< [2]
};

/// Kernels of router_statistics; outputs are overwritten.
template <class Backend, class A>
struct RouterStatisticsKernels {
  static void forward(const RouterStatisticsArgs<A>& args);
};

}  // namespace moh
