#pragma once

#include <span>

#include "autograd/variable.h"

namespace moh {

/// The mean of scalars, a scalar: the loss of several layers. They have one floating dtype and device, and
/// are added in their order. Saves nothing. Throws ShapeError, DTypeError, DeviceError, and ValueError for
/// none.
Variable mean_of(std::span<const Variable> scalars);

}  // namespace moh
