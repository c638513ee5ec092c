#pragma once

#include <cstdint>

#include "ops/moh/router_options.h"

namespace moh {

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
  const A* shared_logits = nullptr;     ///< [N, S]
  const A* routed_logits = nullptr;     ///< [N, E]
  const A* type_logits = nullptr;       ///< [N, 2]
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
  // Backward only; null if there is no gradient.
  const A* d_gates = nullptr;
  const A* d_balance = nullptr;  ///< scalar
  A* d_shared_logits = nullptr;
  A* d_routed_logits = nullptr;
  A* d_type_logits = nullptr;
};

/// Kernels of route_heads.
template <class Backend, class A>
struct HeadRouterKernels {
  static void forward(const RouterArgs<A>& args);
  /// *balance from args.balance_load and args.mean_probability.
  static void balance_loss(const RouterArgs<A>& args, A* balance);
  static void backward(const RouterArgs<A>& args);
};

}  // namespace moh
