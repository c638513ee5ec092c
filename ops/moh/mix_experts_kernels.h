#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Rows of heads [N, U, d], of their experts [N, U E, d], and the selection [N, U E].
struct ExpertRows {
  std::int64_t heads;  ///< N U
  std::int64_t experts, head_dim;
  const std::uint8_t* selected;
};

/// Kernels of mix_experts and spread_to_experts; outputs are overwritten. gates, d_gates [N, U E]. In each,
/// `heads` and its gradient are rows of heads, `rows` and its gradient those of experts.
template <class Backend, class T>
struct MixExpertsKernels {
  static void mix(const T* rows, const Acc<T>* gates, T* heads, const ExpertRows& shape);
  static void mix_backward(const T* d_heads, const T* rows, const Acc<T>* gates, T* d_rows, Acc<T>* d_gates,
                           const ExpertRows& shape);
  static void spread(const T* heads, const Acc<T>* gates, T* rows, const ExpertRows& shape);
  static void spread_backward(const T* d_rows, const T* heads, const Acc<T>* gates, T* d_heads,
                              Acc<T>* d_gates, const ExpertRows& shape);
};

}  // namespace moh
