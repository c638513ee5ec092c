#pragma once

#include <optional>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// y = x w^T + b. x [..., I], w [O, I], b [O] or undefined, one floating dtype and device. Returns [..., O]
/// of dtype `out` (default: that of x; float32 avoids rounding, for instance of router logits). Accumulates
/// in float32 (float64 for float64); on a GPU the gradient of a wider result is rounded to the dtype of x for
/// its products. Saves x and w. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable linear(const Variable& x, const Variable& w, const Variable& b = {},
                std::optional<DType> out = std::nullopt);

/// linear for several weights of one x, such as queries and keys: `biases` is one per weight, each [O] or
/// undefined, or empty for none at all. Returns one result per weight. The gradient of x is accumulated in
/// one tensor, not summed from one tensor per weight.
std::vector<Variable> linears(const Variable& x, const std::vector<Variable>& weights,
                              const std::vector<Variable>& biases = {},
                              std::optional<DType> out = std::nullopt);

/// The results of linears() side by side in the last axis, [..., sum of O]. `biases` are all defined, or
/// none. Weights that lie one behind the other in memory (adjoining_parameters() of models/module.h) are
/// multiplied as one matrix, forward and for the gradient of x; their gradients likewise, where these lie so,
/// too.
Variable packed_linear(const Variable& x, const std::vector<Variable>& weights,
                       const std::vector<Variable>& biases = {}, std::optional<DType> out = std::nullopt);

}  // namespace moh
