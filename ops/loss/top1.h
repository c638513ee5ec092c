#pragma once

#include "core/tensor.h"

namespace moh {

/// The share of the rows of logits [N, V] whose largest one is that of the class with the largest target, as
/// a scalar float32 (float64 for float64 logits) on their device: the accuracy of a training step. targets
/// [N, V] are distributions, as of soft_cross_entropy; of a mixed picture the class with the larger part
/// counts. Ties go to the lowest class, and NaN ranks below every number. 0 without rows. Not differentiable.
/// Throws ShapeError, DTypeError, DeviceError.
Tensor top1_share(const Tensor& logits, const Tensor& targets);

/// The class of the largest of each row of logits [N, V], V at least 1, as [N] int64 on their device; ties
/// and NaN as above. Throws ShapeError, DTypeError.
Tensor top1(const Tensor& logits);

}  // namespace moh
