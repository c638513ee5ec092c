#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// Keys and values of few heads for attention that has as many of them as queries: x [B, T, F + G, d] to
/// [B, T, F + G times, d], the first F heads as they are, each of the others `times` times in succession.
/// The gradient of a repeated head is the sum over its copies. Throws ShapeError, DTypeError,
/// DeviceError, ValueError.
Variable repeat_heads(const Variable& x, std::int64_t first, std::int64_t times);

}  // namespace moh
