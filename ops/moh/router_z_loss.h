#pragma once

#include "autograd/variable.h"

namespace moh {

/// The z-loss of a router (Zoph et al. 2022, arXiv 2202.08906, equation 5), which keeps its logits small: the
/// mean over the tokens of (ln sum_e exp z_e)^2. logits [N, E], E at least 1, usually float32. Returns a
/// scalar in the accumulation dtype; 0 without tokens. Saves the logits and a number per token.
/// Throws ShapeError, DTypeError, DeviceError.
Variable router_z_loss(const Variable& logits);

}  // namespace moh
