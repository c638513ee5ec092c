#pragma once

#include <vector>

#include "autograd/variable.h"

namespace moh {

/// The columns of x [..., D] in parts of these widths, which add up to D: [..., widths[0]], [..., widths[1]]
/// and so on, four at most. Throws ShapeError, DTypeError.
std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& widths);

/// The reverse: parts [..., widths[0]], [..., widths[1]] and so on, four at most, of one dtype and device,
/// side by side in [..., D]. Throws ShapeError, DTypeError, DeviceError.
Variable join(const std::vector<Variable>& parts);

}  // namespace moh
