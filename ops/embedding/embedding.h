#pragma once

#include "autograd/variable.h"

namespace moh {

/// y[..., :] = table[ids[...], :]. table [V, D] of a floating dtype, ids of any shape, int32 or int64, each
/// in [0, V). Returns [ids.shape..., D]. The gradient of the table is dense; rows that one id uses several
/// times are summed in the order of their places, in float32 (float64 for float64), whatever the number of
/// threads. Saves ids. Throws ShapeError, DTypeError, DeviceError, and ValueError with place and value of an
/// id out of range.
Variable embedding(const Variable& table, const Tensor& ids);

}  // namespace moh
