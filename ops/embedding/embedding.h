#pragma once

#include "autograd/variable.h"

namespace moh {

/// y[..., :] = table[ids[...], :]. table [V, D] of a floating dtype, ids of any shape, int32 or int64, each
/// in [0, V). Returns [ids.shape..., D]. The gradient of the table is dense; gradients of the same id are
/// summed in float32 (float64 for float64), in an order that depends on the ids alone. Saves ids. Throws
/// ShapeError, DTypeError, DeviceError, and ValueError with position and value of an id out of range.
Variable embedding(const Variable& table, const Tensor& ids);

}  // namespace moh
