#pragma once

#include "autograd/variable.h"

namespace moh {

/// Query heads to and from the slots of head_slots(), [B, T, G, k]: between [B, T, H, d] and [B, T, G k, d],
/// in which slot j of group g is head G k + j. With grouped-query attention over G KV heads, slots are the
/// query heads of a dense layer with k of them for each KV head. H is a multiple of G. Throw ShapeError,
/// DTypeError, DeviceError.

/// y[b, t, s] = x[b, t, slots[s]]. The gradient of x is that of y at the slots' heads, and 0 elsewhere.
Variable gather_heads(const Variable& x, const Tensor& slots);

/// x[b, t, slots[s]] = gates[b, t, slots[s]] y[b, t, s], and 0 for the heads without a slot. gates [B, T, H],
/// of any floating dtype, usually float32 (arithmetic is in float32, or float64 for float64 y). The gradient
/// of a gate is <dx, y> over the head, 0 without a slot. Saves y, gates and slots.
Variable scatter_heads(const Variable& y, const Variable& gates, const Tensor& slots);

/// The slots y [B, T, G k, d] and after them their weighted sum, [B, T, G k + 1, d] (GQE, arXiv 2606.20945,
/// eq. 5 and 6): z[b, t, s] = y[b, t, s], and z[b, t, G k] = sum of gates[b, t, slots[s]] y[b, t, s] over s.
/// gates [B, T, H] as above. The gradient of a gate is <dz[b, t, G k], y[b, t, s]>, 0 without a slot. Saves
/// y, gates and slots.
Variable append_slot_sum(const Variable& y, const Variable& gates, const Tensor& slots);

}  // namespace moh
