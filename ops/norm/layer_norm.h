#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = (x - mean) * r * weight + bias with r = 1 / sqrt(variance + eps), mean and (biased) variance over the
/// last axis (Ba et al. 2016, arXiv 1607.06450). x [..., D]; weight and bias [D], each may be undefined: 1
/// and 0. One device and floating dtype; eps > 0. Returns [..., D]. Sums in float32 (float64 for float64),
/// the variance around the mean. Saves x, weight, mean and r. Throws ShapeError, DTypeError, DeviceError,
/// ValueError.
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps);

}  // namespace moh
