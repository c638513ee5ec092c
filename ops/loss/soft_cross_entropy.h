#pragma once

#include "autograd/variable.h"

namespace moh {

/// loss = sum over rows i of sum_j targets_ij (log sum_k e^(logits_ik) - logits_ij) / normalizer: the cross
/// entropy of targets that are distributions, as those of smoothed labels, Mixup and CutMix
/// (SoftTargetCrossEntropy of timm). logits [..., V] of a floating dtype; targets of the same shape, float32
/// (float64 for float64 logits), which need not sum to 1. Returns a float32 scalar (float64 for float64). Row
/// maxima are subtracted first; rows are summed in double precision, in an order that does not depend on the
/// number of threads. Saves two numbers per row; the logits are kept. Not differentiable with respect to the
/// targets. Throws ShapeError, DTypeError, DeviceError, and ValueError for a normalizer that is not positive
/// and, on the CPU, for a target that is negative or not finite.
Variable soft_cross_entropy(const Variable& logits, const Tensor& targets, double normalizer = 1.0);

}  // namespace moh
