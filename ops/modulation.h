#pragma once

#include <string_view>

#include "autograd/variable.h"

namespace moh {

/// Checks x [B, ..., D] and modulation [B, M, D], of one floating dtype and device, for an op that reads rows
/// [first, first + count) of the modulation of each sample (adaptive layer norm, as in DiT). Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
void check_modulation(std::string_view op, const Variable& x, const Variable& modulation, std::int64_t first,
                      std::int64_t count);

}  // namespace moh
