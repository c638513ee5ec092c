#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// x [N, H, d], y [N, S, d]: slot s of a token is its head slots[n, s], ascending in s, so that head h can
/// have a slot only among the S / G of group h / (H / G).
struct SlotShape {
  std::int64_t tokens, heads, groups, slots, head_dim;
  const std::int32_t* numbers;  ///< [N, S]
};

/// Kernels of gather_heads, scatter_heads and append_slot_sum (z [N, S + 1, d]); outputs are overwritten.
/// gates, d_gates [N, H]; null gates are 1.
template <class Backend, class T>
struct GatherHeadsKernels {
  static void gather(const T* x, T* y, const SlotShape& shape);
  static void scatter(const T* y, const Acc<T>* gates, T* x, const SlotShape& shape);
  static void scatter_backward(const T* dx, const T* y, const Acc<T>* gates, T* dy, Acc<T>* d_gates,
                               const SlotShape& shape);
  static void append_sum(const T* y, const Acc<T>* gates, T* z, const SlotShape& shape);
  static void append_sum_backward(const T* dz, const T* y, const Acc<T>* gates, T* dy, Acc<T>* d_gates,
                                  const SlotShape& shape);
};

}  // namespace moh
