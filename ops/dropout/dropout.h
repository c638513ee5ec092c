#pragma once

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

/// y_i = x_i / (1 - p) with probability 1 - p, else 0 (Srivastava et al. 2014). 0 <= p < 1; p = 0 returns x
/// itself. x has any shape and floating dtype. Element i is kept when word i mod 4 of
/// philox(key.seed, i div 4, key.stream), taken as a fraction of 2^32, is p or more: the mask is a function
/// of (key, i), the same on every device, never stored, and computed again in the backward pass. A dropped
/// NaN or infinity comes out as NaN. Saves the key. Throws DTypeError, ValueError.
Variable dropout(const Variable& x, double p, RandomKey key);

}  // namespace moh
