#pragma once

#include <cstdint>

namespace moh {

/// Sizes, inputs and outputs of route_masked_heads for N = `tokens` tokens of H = `heads` heads; A is float
/// or double. Absent tensors are null.
template <class A>
struct MaskedRouterArgs {
  std::int64_t tokens = 0, heads = 0, top_k = 0;
  double balance_factor = 0;         ///< of sum_i P_i f_i
  const A* masks = nullptr;          ///< [H], z
  const A* shared_logits = nullptr;  ///< [N, H]
  const A* routed_logits = nullptr;  ///< [N, H]
  const A* type_logits = nullptr;    ///< [N, 2]
  A* gates = nullptr;                ///< [N, H]
  std::uint8_t* selected = nullptr;  ///< [N, H]
  std::uint8_t* kept = nullptr;      ///< [N, H], m; read by the backward pass
  A* load = nullptr;                 ///< [H], f
  A* balance = nullptr;              ///< scalar
  // Backward only; null if there is no gradient.
  const A* d_gates = nullptr;
  const A* d_balance = nullptr;
  A* d_shared_logits = nullptr;
  A* d_routed_logits = nullptr;
  A* d_type_logits = nullptr;
  A* d_masks = nullptr;
};

/// Kernels of route_masked_heads; outputs are overwritten.
template <class Backend, class A>
struct MaskedRouterKernels {
  static void forward(const MaskedRouterArgs<A>& args);
  static void backward(const MaskedRouterArgs<A>& args);
};

}  // namespace moh
