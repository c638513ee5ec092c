#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace moh {

/// How the gates of the selected heads are scaled.
enum class GateScaling {
  kCode,   ///< as the released code: gates average about 1 (type softmax x 2, shared x S, routed renormalised
           ///< x K)
  kPaper,  ///< as the paper's equations 6-8: plain softmaxes, no renormalisation; gates sum to at most 1
  kBinary,  ///< 1 for shared and selected heads (MoH-LLaMA3); gradients by the straight-through estimator
  kShares,  ///< shares of the selected routed heads in a weighted sum of their outputs (GQE, arXiv
            ///< 2606.20945, eq. 5): softmaxes of each group, renormalised over all selected heads; 0 for
            ///< shared heads
};

/// The load-balance loss of a layer, with P_i the mean probability of routed head i over the tokens and f_i
/// the share of the tokens that select it: sum f_i = K. Training drives it towards its value at perfect
/// balance (P_i = 1 / E, f_i = K / E). It can be lower for a while, but not for long, as P follows f.
enum class BalanceLoss {
  kCode,    ///< E sum_i P_i f_i, as the released code: K when balanced, at most E
  kPaper,   ///< sum_i P_i f_i, as the paper's equation 9: K / E when balanced, at most 1
  kShares,  ///< E sum_i P_i f_i / K, with f as shares of the selections (MoA, arXiv 2210.05144): 1 when
            ///< balanced
  /// The squared coefficient of variation of the heads' importance (arXiv 1701.06538, eq. 6 and 7): 0 when
  /// balanced, at most E / K - 1. P and f are both the importance over the number of tokens, the mean of a
  /// softmax over a token's selected logits, 0 for the others: E sum_i (P_i - 1 / E)^2.
  kCv,
};

/// Heads of one attention layer: `num_shared` are active for every token, of the E = heads - num_shared
/// routed ones each token keeps the `top_k` with the largest logits. The router's order has the shared heads
/// first, then the routed ones; head_order() maps it to the heads of the layer.
///
/// With G = `groups` the routed heads are G equal parts of that order in succession, and of each a token
/// keeps its top_k / G largest logits. Softmaxes and gates are those of the whole layer all the same, so that
/// a selection has the gates that it has without groups, but for kShares. The load-balance loss is the mean
/// of the G losses that the groups have by themselves, with E / G heads, top_k / G of them kept, and P_i the
/// mean of a softmax over the group's logits.
struct RouterOptions {
  std::int64_t heads = 0;
  std::int64_t num_shared = 0;
  std::int64_t top_k = 0;  ///< with kBinary also 0 of several routed heads
  GateScaling scaling = GateScaling::kCode;
  bool two_stage = true;         ///< weigh shared against routed heads by the type logits; otherwise equally
  bool straight_through = true;  ///< kBinary: pass gate gradients to the routed logits
  BalanceLoss balance_loss = BalanceLoss::kCode;
  std::int64_t groups = 1;  ///< divides E and top_k

  std::int64_t routed() const { return heads - num_shared; }
  std::int64_t group_routed() const { return routed() / groups; }
  std::int64_t group_top_k() const { return top_k / groups; }
};

/// The heads of a layer in the router's order, int32 [heads]: `shared_heads`, ascending, then the others,
/// ascending. Copies from the host: call it once, not in every step. Throws ValueError for heads that are
/// listed twice or out of range.
Tensor head_order(std::int64_t heads, std::span<const std::int64_t> shared_heads, Device device = kCpu);

/// Widths of a layer's logits; 0: there are none.
struct RouterWidths {
  /// S, from matrix W_s [S, D], when S > 1 (one shared head needs no weights); 0 for kBinary, kShares
  std::int64_t shared = 0;
  std::int64_t routed = 0;  ///< E, from matrix W_r [E, D], when K > 0
  std::int64_t type =
      0;  ///< 2, from matrix W_h [2, D], when S > 0, K > 0 and two_stage; 0 for kBinary, kShares
};
/// Throws ValueError when the head counts contradict each other.
RouterWidths router_widths(const RouterOptions& options);

/// The load-balance loss over sum_i P_i f_i, a sum over all routed heads; for BalanceLoss::kCv over
/// sum_i (f_i - 1 / E) (2 P_i - f_i - 1 / E), which is the squared deviation of P where f is P, and is linear
/// in P where f is that of more tokens.
double balance_factor(const RouterOptions& options);

}  // namespace moh
