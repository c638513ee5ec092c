#pragma once

#include <cstdint>

#include "autograd/variable.h"
#include "ops/moh/router_options.h"

namespace moh {

/// Gates, selection and statistics for N tokens. Gates and statistics are float32 (float64 when
/// the logits are).
struct Routing {
  Variable gates;        ///< [N, H], 0 for heads that are not selected
  Variable balance;      ///< load-balance loss, a scalar; undefined without routed heads
  Tensor selected;       ///< [N, H] uint8, 1 where a head is selected
  Tensor probabilities;  ///< [N, E] softmax of the routed logits, with kShares of each group's; undefined
                         ///< without routed heads
  Tensor top;            ///< [N, K] int32, selected routed heads, numbered from the first routed one, in the
                         ///< order of their logits (or of p + b), largest first, group by group; undefined
                         ///< without routed heads
  Tensor load;           ///< [E] share of the tokens that select each routed head (sums to K)
  /// [E], f of the balance loss of these tokens: `load`, or with BalanceLoss::kCv their mean importance.
  Tensor balance_load;
  /// Means over the tokens that show how the router decides, [2], constants; undefined without routed heads:
  ///   [0] the second of softmax(type logits): the share of the weight that the two-stage router gives to
  ///       routed heads; 0 without type logits;
  ///   [1] the margin z_k - z_r of the last kept head k over the first refused one r, the largest of those
  ///       that come after k; with groups the mean of the margins that they have by themselves. 0 where no
  ///       head is refused, and where logits alone do not decide (forced_top, selection_bias).
  Tensor statistics;
};

/// Two-stage routing of arXiv 2410.11842, section 3.2. Logits [N, S], [N, E], [N, 2] have the widths of
/// router_widths(), undefined where that is 0, and are float32 or float64. With p = softmax(z_r), m = its
/// Top-K mask:
///   kCode:   routed gate = w_2 K m p / sum(m p), shared gate = w_1 S softmax(z_s), w = 2 softmax(z_h)
///   kPaper:  routed gate = a_2 m p, shared gate = a_1 softmax(z_s), a = softmax(z_h)
///   kBinary: 1
///   kShares: routed gate = m q / sum(m q), shared gate = 0, with q = softmax(z_r) of each group by itself
/// Each group of options.groups has a mask m of its own, and P of a softmax over its logits. Without
/// two_stage, or with one kind of heads only, w = (1, 1) and a = (1/2, 1/2) or (1). Ties go to the lowest
/// head. balance = E sum_i P_i f_i, or another form of BalanceLoss, P_i = mean over tokens of p_i, f = load.
/// With kCv P is the mean of m p / sum(m p), whatever the scaling: the importance of a head as a share.
/// Gradients: none through the selection; kCode renormalises, so unselected logits get none from the gates,
/// and with K = 1 none at all; the balance loss reaches all routed logits through P. kBinary:
/// d z = p (U - sum_j U_j p_j) with U the gate gradients (straight-through), 0 for heads whose outputs were
/// not computed. kShares: d log q = g (U - <g, U>) with g the gates, and d z = d log q - q sum(d log q) in
/// each group. Gates and selection are indexed by the heads of the layer, everything else in the router's
/// order: head_order(), on the device of the logits; undefined: 0, 1 .. H - 1. `forced_top` [N, K] int32
/// replaces the selection (comparisons with a reference of another precision), group by group. `device` is
/// that of the results when there are no logits. `balance_load` [E], in the dtype of the gates, is the f of
/// the balance loss, a constant: that of more tokens than these (docs/load_balance.md); undefined: that of
/// these. `selection_bias` [E], in the dtype of the gates, is b of loss-free balancing (arXiv 2408.15664): m
/// is the Top-K mask of p + b, gates and P are of p alone. Saves the softmaxes. Throws ShapeError,
/// DTypeError, ValueError.
Routing route_heads(const Variable& shared_logits, const Variable& routed_logits, const Variable& type_logits,
                    std::int64_t num_tokens, const RouterOptions& options, const Tensor& order = {},
                    const Tensor& forced_top = {}, Device device = kCpu, const Tensor& balance_load = {},
                    const Tensor& selection_bias = {});

/// route_heads() of logits that lie beside each other, [N, E + 2 + S]: the routed ones, those of the types,
/// the shared ones, each of its width in router_widths(). So does their gradient.
Routing route_heads_packed(const Variable& logits, const RouterOptions& options, const Tensor& order = {},
                           const Tensor& forced_top = {}, const Tensor& balance_load = {},
                           const Tensor& selection_bias = {});

}  // namespace moh
