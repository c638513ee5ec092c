#pragma once

#include "autograd/variable.h"

namespace moh {

/// y_j = e^(x_j - m) / sum_k e^(x_k - m) with m = max_k x_k, over the last axis. x [..., D] of a floating
/// dtype; arithmetic in float32 (float64 for float64). An entry of -inf gets 0; a row without a finite entry
/// becomes NaN. Saves y. Throws ShapeError, DTypeError, ValueError.
Variable softmax(const Variable& x);

}  // namespace moh
