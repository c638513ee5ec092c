#pragma once

#include "autograd/variable.h"

namespace moh {

/// Group norm (Wu & He 2018, arXiv 1803.08494) of images in channels-last layout:
///   y = (x - mean) * r * w[c] + b[c] with r = 1 / sqrt(variance + eps),
/// mean and (biased) variance over all pixels and the C / groups successive channels of a group, of each
/// image. x [B, H, W, C]; w, b [C]; one device and floating dtype; groups divides C; eps > 0. Returns
/// [B, H, W, C]. Sums in float32 (float64 for float64), the variance around the mean; results have the same
/// bits with any number of threads. Saves x, w, mean and r. Throws ShapeError, DTypeError, DeviceError,
/// ValueError.
Variable group_norm(const Variable& x, const Variable& w, const Variable& b, std::int64_t groups, double eps);

}  // namespace moh
