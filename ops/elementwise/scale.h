#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = factor * x with a constant factor, which must be finite. x has any shape and floating dtype. Saves
/// nothing. Throws DTypeError, ValueError.
Variable scale(const Variable& x, double factor);

}  // namespace moh
