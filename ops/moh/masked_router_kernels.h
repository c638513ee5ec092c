#pragma once

#include <cmath>
#include <cstdint>

#include "ops/moh/router_options.h"

namespace moh {

/// Sizes, inputs and outputs of route_masked_heads for N = `tokens` tokens of H = `heads` heads; A is float
/// or double. Absent tensors are null.
template <class A>
struct MaskedRouterArgs {
  std::int64_t tokens = 0, heads = 0;
  double* counts = nullptr;          ///< K, and the factor of sum_i P_i f_i
  const A* masks = nullptr;          ///< [H], z
  const A* shared_logits = nullptr;  ///< [N, H]
  const A* routed_logits = nullptr;  ///< [N, H]
  const A* type_logits = nullptr;    ///< [N, 2]
  A* gates = nullptr;                ///< [N, H]
  std::uint8_t* selected = nullptr;  ///< [N, H]
  std::uint8_t* kept = nullptr;      ///< [N, H], m; read by the backward pass
  A* load = nullptr;                 ///< [H]
  const A* balance_load = nullptr;   ///< [H], f: the load, or that of more tokens
  A* balance = nullptr;              ///< scalar
  A* heads_each = nullptr;           ///< scalar: selected heads of a token, on average
  A* routed_weight = nullptr;        ///< [1], MaskedRouting::routed_weight
  // Backward only; null if there is no gradient.
  const A* d_gates = nullptr;
  const A* d_balance = nullptr;
  A* d_shared_logits = nullptr;
  A* d_routed_logits = nullptr;
  A* d_type_logits = nullptr;
  A* d_masks = nullptr;
};

/// The numbers that the masks alone decide: K, and the factor of the balance loss.
struct RoutedCount {
  double top_k, balance_factor;
};
/// constexpr, so that device code may call it.
template <class A>
constexpr RoutedCount count_routed(const A* masks, std::int64_t heads, double kept_share, BalanceLoss form) {
  double routed = static_cast<double>(heads), candidates = routed;
  for (std::int64_t h = 0; h < heads; ++h) {
    routed -= static_cast<double>(masks[h]);
    if (!(masks[h] < A(1))) candidates -= 1;
  }
  double kept = std::floor(kept_share * routed + 0.5);
  if (!(kept >= 1)) kept = 1;  // NaN, too
  if (kept > candidates) kept = candidates;
  if (form == BalanceLoss::kPaper) return {kept, 1};
  if (form == BalanceLoss::kCode) return {kept, routed};
  return {kept, kept > 0 ? routed / kept : 0.0};
}

/// Kernels of route_masked_heads; outputs are overwritten.
template <class Backend, class A>
struct MaskedRouterKernels {
  /// Writes counts.
  static void count(const MaskedRouterArgs<A>& args, double kept_share, BalanceLoss form);
  static void forward(const MaskedRouterArgs<A>& args);
  static void backward(const MaskedRouterArgs<A>& args);
};

}  // namespace moh
