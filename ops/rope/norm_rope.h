#pragma once

#include "autograd/variable.h"
#include "ops/rope/rope.h"

namespace moh {

/// rope(rms_norm(x, w, eps), table, document_starts) in one pass: the normalised queries or keys of a head,
/// rotated, as in Qwen 3. x [B, T, H, d]; w [d] of x's dtype; the table and starts as of rope(); eps > 0.
/// Returns [B, T, H, d], rounded once. Saves x, w, the table and the reciprocal root mean square of each
/// head. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable norm_rope(const Variable& x, const Variable& w, double eps, const RopeTable& table,
                   const Tensor& document_starts = {});

}  // namespace moh
