#pragma once

#include "autograd/variable.h"
#include "ops/moh/router_options.h"

namespace moh {

/// The result of route_masked_heads for N tokens; in the dtype of the logits.
struct MaskedRouting {
  Variable gates;        ///< [N, H], 0 for heads that are not selected
  Variable balance;      ///< load-balance loss, a scalar
  Tensor selected;       ///< [N, H] uint8, 1 where a head is shared in part or kept
  Tensor load;           ///< [H] share of the tokens that keep each head as a routed one
  Tensor heads_each;     ///< a scalar: selected heads of a token, on average
  Tensor top_k;          ///< K, a scalar of float64
  Tensor routed_weight;  ///< [1], the mean of the second of softmax(type_logits); undefined without these
};

/// Two-stage routing (route_heads with GateScaling::kCode) while it is being learned which heads are shared:
/// a mask z_h in [0, 1] says how much of head h is shared, e_h = 1 - z_h how much is routed. With m the Top-K
/// of z_r + ln e among the heads with e > 0,
///   gate_h = w_1 Z z_h exp(s_h) / sum_j z_j exp(s_j) + w_2 M m_h e_h exp(r_h) / sum_j m_j e_j exp(r_j),
///   Z = sum z, M = sum m e, w = 2 softmax(type logits), or 1 without them,
/// which is route_heads when all z are 0 or 1, and continuous in between. The load-balance loss is that of
/// softmax(r + ln e), its number of routed heads E = sum e; it passes no gradient to the masks. Masks that
/// are 0 or 1 get no gradient. K is kept_share (0 to 1) of E, rounded, at least 1, if there are heads with
/// e > 0. shared_logits and routed_logits [N, H], type_logits [N, 2] or undefined, masks [H], of one dtype,
/// float32 or float64. `balance_load` [H] as for route_heads, which alone has BalanceLoss::kCv.
/// Ties go to the lowest head. On a GPU nothing waits for the masks: K is computed there. Saves its inputs
/// and the selection. Throws ShapeError, DTypeError, ValueError.
MaskedRouting route_masked_heads(const Variable& shared_logits, const Variable& routed_logits,
                                 const Variable& type_logits, const Variable& masks, double kept_share,
                                 BalanceLoss balance_loss = BalanceLoss::kCode,
                                 const Tensor& balance_load = {});

}  // namespace moh
