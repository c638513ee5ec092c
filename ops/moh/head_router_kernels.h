#pragma once

#include <cstdint>

#include "ops/moh/router_options.h"

namespace moh {

/// Columns of a matrix, the first element of their first row; its rows begin `stride` elements apart.
template <class A>
struct Columns {
  A* data = nullptr;
  std::int64_t stride = 0;

  constexpr A* row(std::int64_t number) const { return data + number * stride; }
  constexpr explicit operator bool() const { return data != nullptr; }
};

/// Sizes, inputs and outputs of route_heads for N = `tokens` tokens; A is float or double. Absent tensors are
/// null.
template <class A>
struct RouterArgs {
  std::int64_t tokens = 0;
  RouterOptions options;
  double balance_factor = 0;            ///< of the options
  double balance_slope = 0;             ///< the loss's derivative in P_i over f_i
  double even_share = 0;                ///< BalanceLoss::kCv: a head's share of its group, 1 / E
  const std::int32_t* order = nullptr;  ///< [H], the layer's head for each index of the router's order
  Columns<const A> shared_logits;       ///< [N, S]
  Columns<const A> routed_logits;       ///< [N, E]
  Columns<const A> type_logits;         ///< [N, 2]
  A* shared_probabilities = nullptr;    ///< [N, S]
  A* probabilities = nullptr;           ///< [N, E]
  /// [N, E], the softmaxes whose mean is P: of each group by itself, and for BalanceLoss::kCv over selected
  /// heads alone. Null where these are `probabilities`.
  A* group_probabilities = nullptr;
  A* type_probabilities = nullptr;  ///< [N, 2]
  std::int32_t* top = nullptr;      ///< [N, K]; read instead of written when forced
  bool forced = false;
  const A* selection_bias = nullptr;  ///< [E], added to the probabilities for the selection
  A* gates = nullptr;                 ///< [N, H]
  std::uint8_t* selected = nullptr;   ///< [N, H]
  A* load = nullptr;                  ///< [E]
  A* mean_probability = nullptr;      ///< [E], P
  /// [E], f: the load, or mean_probability for BalanceLoss::kCv, or what either is of more tokens.
  const A* balance_load = nullptr;
  A* balance = nullptr;     ///< scalar
  A* statistics = nullptr;  ///< [2], Routing::statistics
  // Backward only; null if there is no gradient.
  const A* d_gates = nullptr;
  const A* d_balance = nullptr;  ///< scalar
  Columns<A> d_shared_logits, d_routed_logits, d_type_logits;
};

/// Kernels of route_heads.
template <class Backend, class A>
struct HeadRouterKernels {
  static void forward(const RouterArgs<A>& args);
  static void backward(const RouterArgs<A>& args);
};

}  // namespace moh
