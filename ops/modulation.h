#pragma once

#include <string_view>

#include "autograd/variable.h"

namespace moh {

/// Checks x [B, ..., D] and modulation [B, M, D] of one floating dtype and device, of which an op reads
/// `count` rows for each sample, from row `first` on. Throws ShapeError, DTypeError, DeviceError, ValueError.
void check_modulation(std::string_view op, const Variable& x, const Variable& modulation, std::int64_t first,
                      std::int64_t count);

}  // namespace moh
