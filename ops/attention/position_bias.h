#pragma once

#include "autograd/variable.h"

namespace moh {

/// The biases of attention logits by relative position, of every pair of a query and a key: y[h, n, m] =
/// table[index[n, m], h]. table [R, H] of a floating dtype holds a row per relative position, index [N, M]
/// int64 (or int32) its number for each pair, in [0, R). Returns [H, N, M]. The gradient of the table is
/// summed in float32 (float64 for float64), in an order that depends on the index alone. Saves index.
/// Throws ShapeError, DTypeError, DeviceError, and ValueError with position and value of an index out
/// of range.
Variable position_bias(const Variable& table, const Tensor& index);

}  // namespace moh
