#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = weights x: rows of y are weighted sums of the rows of x, as in an interpolation. weights [O, I] are
/// constants of the accumulation dtype of x, x [I, D] is of a floating dtype. Returns [O, D]. Accumulates in
/// float32 (float64 for float64). Saves weights. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable mix_rows(const Tensor& weights, const Variable& x);

}  // namespace moh
