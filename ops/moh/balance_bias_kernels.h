#pragma once

#include <cstdint>

namespace moh {

/// A head's load is even if it differs from the mean by less than this share of it: loads are rounded to
/// float32, and sums of them over other micro-batches differently.
inline constexpr double kEvenLoad = 1e-6;

/// Arguments of update_balance_bias: memory of the back end.
template <class A>
struct BalanceBiasArgs {
  A* bias = nullptr;              ///< [E]
  const double* loads = nullptr;  ///< that of head 0 in the first of `micro_batches` rows, `row_width` apart
  const double* go = nullptr;     ///< scalar; may be null
  std::int64_t routed = 0, micro_batches = 0, row_width = 0, groups = 1;
  A rate = 0;
};

template <class Backend, class A>
struct BalanceBiasKernels {
  static void update(const BalanceBiasArgs<A>& args);
};

}  // namespace moh
