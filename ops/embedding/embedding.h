#pragma once

#include "autograd/variable.h"

namespace moh {

/// y[..., :] = table[ids[...], :]. table [V, D] of a floating dtype, ids of any shape, int32 or int64, each
/// in [0, V). Returns [ids.shape..., D]. The gradient of the table is dense; rows that one id uses several
/// times are summed in float32 (float64 for float64), in an order that the ids alone decide. Saves ids.
/// Throws ShapeError, DTypeError, DeviceError, and ValueError with place and value of an id out of range.
Variable embedding(const Variable& table, const Tensor& ids);

}  // namespace moh
