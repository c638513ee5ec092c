#pragma once

#include "autograd/variable.h"
#include "ops/norm/residual_branch.h"

namespace moh {

/// y = x * r * w with r = 1 / sqrt(mean(x * x) + eps), over the last axis (Zhang & Sennrich 2019, arXiv
/// 1910.07467). x [..., D], w [D], one device and floating dtype; eps > 0. Returns [..., D]. Sums in float32
/// (float64 for float64). Saves x, w, r. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable rms_norm(const Variable& x, const Variable& w, double eps);

/// sum = x + branch, rounded to its dtype, and rms_norm(sum, w, eps), in one pass over memory instead of two.
/// x and branch [..., D]; without a branch, sum is x, and its gradient is added to that of the norm in the
/// same pass. Saves sum, w, r. Throws as rms_norm.
AddedAndNormed add_rms_norm(const Variable& x, const Variable& branch, const Variable& w, double eps);

}  // namespace moh
