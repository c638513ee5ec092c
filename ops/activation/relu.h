#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = max(x, 0), elementwise, with slope 0 at 0. x has any shape and floating dtype; a NaN stays NaN. Saves
/// y. Throws DTypeError, ValueError.
Variable relu(const Variable& x);

}  // namespace moh
