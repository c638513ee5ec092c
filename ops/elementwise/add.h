#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = a + b, elementwise: residual connections. a and b have one shape, floating dtype and device. Saves
/// nothing. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable add(const Variable& a, const Variable& b);

}  // namespace moh
