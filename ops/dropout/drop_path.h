#pragma once

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

/// Stochastic depth (Huang et al. 2016, arXiv 1603.09382): y[b] = x[b] / (1 - rate) with probability 1 -
/// rate, else 0, one draw for each sample b, for the output of a residual branch. x [B, ...] of any
/// floating dtype; 0 <= rate < 1; rate = 0 returns x itself. Sample b is kept when dropout with the same
/// key would keep element b: the draws are a function of (key, b), the same on every device, not stored,
/// and recomputed in the backward pass. A dropped NaN or infinity becomes NaN. Saves the key. Throws
/// ShapeError, DTypeError, ValueError.
Variable drop_path(const Variable& x, double rate, RandomKey key);

/// x + drop_path(branch, rate, key), in one pass. x, branch [B, ...] of one shape, floating dtype and device.
/// Throws what drop_path() does.
Variable add_drop_path(const Variable& x, const Variable& branch, double rate, RandomKey key);

}  // namespace moh
