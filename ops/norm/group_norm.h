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

/// Mean, and r = 1 / sqrt(variance + eps), of the groups of images: [B, groups], in the accumulation dtype.
struct GroupStatistics {
  Tensor mean, r;
};

/// The statistics with which group_norm computes. Not differentiable. Throws as group_norm does.
GroupStatistics group_statistics(const Tensor& x, std::int64_t groups, double eps);

/// group_norm of rows of images, x [B, h, W, C], by the statistics of the whole images: row for row the bits
/// that it gives them, so that an image can be normalised piece by piece. Not differentiable. Throws as
/// group_norm does.
Tensor group_norm_rows(const Tensor& x, const Tensor& w, const Tensor& b, const GroupStatistics& of);

}  // namespace moh
