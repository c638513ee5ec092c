#pragma once

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

/// y_i = x_i / (1 - p) with probability 1 - p, else 0 (Srivastava et al. 2014). 0 <= p < 1; p = 0 returns x
/// itself. x has any shape and floating dtype. Element i is kept when word i mod 4 of
/// philox(key.seed, i div 4, key.stream), divided by 2^32, is at least p: the mask is a function of (key, i),
/// the same on every device, not stored, and recomputed in the backward pass. A dropped NaN or infinity
/// becomes NaN. Saves the key. Throws DTypeError, ValueError.
Variable dropout(const Variable& x, double p, RandomKey key);

}  // namespace moh
