#pragma once

#include "autograd/variable.h"

namespace moh {

/// y[..., h, :] = scales[h] * x[..., h, :]: a weight per attention head, the same for all tokens. x [..., H,
/// d], scales [H], one floating dtype and device. Returns the shape of x. Saves both. Throws ShapeError,
/// DTypeError, DeviceError, ValueError.
Variable scale_heads(const Variable& x, const Variable& scales);

}  // namespace moh
