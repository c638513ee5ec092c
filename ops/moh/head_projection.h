#pragma once

#include "autograd/variable.h"
#include "ops/attention/head_lists.h"

namespace moh {

/// The input and output projections of Mixture-of-Head attention, for the selected heads of each token (arXiv
/// 2410.11842, eq. 5): queries of unselected heads are not projected, and the output projection sums over the
/// selected heads only. `lists` name the (token, head) pairs; they are built with kv_heads = heads, one list
/// per (batch, head). Accumulation in float32 (float64 for float64); results have the same bits with any
/// number of threads. CPU only. Throw ShapeError, DTypeError, DeviceError, ValueError.

/// y[b, t, h] = w_h x[b, t] + bias_h for the listed pairs, zeros for the other pairs. x [B, T, D], w [O, D],
/// bias [O] or undefined, O a multiple of d = head_dim, at least H d. Returns [B, T, O / d, d]: heads 0 ... H
/// - 1 according to the lists, those that follow (keys and values of a packed projection) for every token.
/// Saves x and w. Gradients of y at unlisted pairs are ignored.
Variable project_to_heads(const Variable& x, const Variable& w, const Variable& bias, const HeadLists& lists,
                          std::int64_t head_dim);

/// y[b, t] = sum of w_h heads[b, t, h] over the listed heads of the token, + bias. heads [B, T, H, d],
/// w [O, H d], bias [O] or undefined. Returns [B, T, O]. Saves heads and w. The gradient of unlisted pairs is
/// zero.
Variable project_from_heads(const Variable& heads, const Variable& w, const Variable& bias,
                            const HeadLists& lists);

/// Whether the two are faster than dense projections for `tokens` tokens (of all sequences together) with a
/// share `active` (0 ... 1) of selected heads of width head_dim.
bool head_projection_pays(std::int64_t tokens, std::int64_t head_dim, double active);

}  // namespace moh
