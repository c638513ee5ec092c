#pragma once

#include <optional>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// y = x w^T + b. x [..., I], w [O, I], b [O] or undefined, one floating dtype and device. Returns [..., O]
/// of dtype `out` (default: that of x; float32 keeps what decides things, such as router logits, unrounded).
/// Sums in float32 (float64 for float64). Saves x and w. Throws ShapeError, DTypeError, DeviceError,
/// ValueError.
Variable linear(const Variable& x, const Variable& w, const Variable& b = {},
                std::optional<DType> out = std::nullopt);

/// linear without bias for several weights of one x: queries, keys and values, say. Returns one result per
/// weight. The gradient of x is summed while it is computed, not from one tensor per weight.
std::vector<Variable> linears(const Variable& x, const std::vector<Variable>& weights,
                              std::optional<DType> out = std::nullopt);

}  // namespace moh
