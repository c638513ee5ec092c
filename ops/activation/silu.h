#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = x / (1 + e^-x), elementwise (Elfwing et al. 2018, arXiv 1702.03118). x has any shape and floating
/// dtype; arithmetic in float32 (float64 for float64). Saves x. Throws DTypeError, ValueError.
Variable silu(const Variable& x);

}  // namespace moh
