#pragma once

#include <span>

#include "core/tensor.h"

namespace moh {

/// The L2 norm over all elements of all tensors together: sqrt(sum of squares). Floating dtypes may be mixed,
/// undefined tensors (parameters without a gradient) count as zeros. Squares are summed in double precision,
/// chunk by chunk, so that nothing overflows and the result has the same bits with any number of threads. Not
/// differentiable. Throws DTypeError.
double grad_norm(std::span<const Tensor> grads);

/// The factor by which clipping to max_norm multiplies every gradient: min(1, max_norm / (norm + 1e-6)). Hand
/// it to adamw, which saves a pass over the gradients. Throws NumericError for a norm that is not finite,
/// ValueError for max_norm <= 0.
double clip_factor(double norm, double max_norm);

}  // namespace moh
