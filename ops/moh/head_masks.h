#pragma once

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

/// Masks of a layer's heads, z [H] in [0, 1], with a given expected number of unmasked heads: hard-concrete
/// variables (hard_concrete.h) with log_alpha_h = 10 scores_h + c, where c is such that sum_h P(z_h > 0) is
/// `count`. So the scores only rank the heads, and need no penalty with a weight of its own. The factor lets
/// an optimiser with steps of a learning rate for weights reach both ends. The draws are random_uniform(key,
/// h), moved off 0. The gradient of the scores includes that of c; masks that are 0 or 1 pass none on. scores
/// [H] float32 or float64; count a float64 scalar on their device, 0 < count < H, so that a captured step can
/// go on with another one (a GPU does not check it). Arithmetic is float64. Saves 2 H numbers. Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
Variable head_masks(const Variable& scores, const Tensor& count, RandomKey key);

/// The expected number of unmasked heads at the beginning, of `heads`: nearly all, so that none is 0.
double first_unmasked(std::int64_t heads);

}  // namespace moh
