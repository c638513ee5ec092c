#pragma once

#include "autograd/variable.h"

namespace moh {

/// y = (x - mean) * r * weight + bias with r = 1 / sqrt(variance + eps), mean and (biased) variance over the
/// last axis (Ba et al. 2016, arXiv 1607.06450). x [..., D]; weight and bias [D], each may be undefined: 1
/// and 0. One device and floating dtype; eps > 0. Returns [..., D]. Sums in float32 (float64 for float64),
/// the variance around the mean. Saves x, weight, mean and r. Throws ShapeError, DTypeError, DeviceError,
/// ValueError.
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps);

/// Adaptive layer norm, adaLN (Peebles & Xie 2023, arXiv 2212.09748), norm and modulation in one pass:
///   y[b] = n[b] (1 + scale[b]) + shift[b], with n = layer_norm of x without weight and bias.
/// x [B, ..., D]; modulation [B, M, D], the output of the conditioning layer, of which this norm reads two
/// rows: shift[b] = modulation[b, first], scale[b] = modulation[b, first + 1]. The gradient of the other rows
/// is 0. One device and floating dtype; eps > 0. Returns [B, ..., D]. Saves x, modulation, mean and r. Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
Variable layer_norm_modulate(const Variable& x, const Variable& modulation, std::int64_t first, double eps);

}  // namespace moh
