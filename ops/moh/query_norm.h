#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// Logits of the query-norm router, which has no parameters (MoH-LLaMA3): z_e = s_e / std(s), with s_e the l2
/// norm of the query of routed head e before the rotary embedding, and std the unbiased standard deviation
/// (divisor E - 1) over the token's routed heads. If all norms of a token are equal, or E = 1, z = 0 and
/// there is no gradient. q [N, H, d], floating. The routed heads are those of `order` (head_order() of
/// ops/moh/router_options.h; undefined: 0, 1 .. H - 1) after the first `shared`, 0 <= shared < H. Returns [N,
/// H - shared] in float32 (float64 for float64). Saves q and the norms. Throws ShapeError, DTypeError,
/// ValueError.
Variable query_norm_logits(const Variable& q, std::int64_t shared, const Tensor& order = {});

}  // namespace moh
