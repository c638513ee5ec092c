#pragma once

#include <optional>

#include "autograd/variable.h"

namespace moh {

/// y = x w^T + b. x [..., I], w [O, I], b [O] or undefined, one floating dtype and device. Returns [..., O]
/// of dtype `out` (default: that of x; float32 keeps what decides things, such as router logits, unrounded).
/// Sums in float32 (float64 for float64). Saves x and w. Throws ShapeError, DTypeError, DeviceError,
/// ValueError.
Variable linear(const Variable& x, const Variable& w, const Variable& b = {},
                std::optional<DType> out = std::nullopt);

}  // namespace moh
