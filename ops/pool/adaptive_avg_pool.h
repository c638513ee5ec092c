#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// Averages over the cells of a grid of height x width, as torch.nn.AdaptiveAvgPool2d of images in
/// channels-last layout: cell i of n along an axis of L pixels covers those from floor(i L / n) up to ceil((i
/// + 1) L / n), so that cells overlap where n does not divide L. x [B, H, W, C] of a floating dtype; 1 <=
/// height <= H, 1 <= width <= W. Returns [B, height, width, C]. Sums in float32 (float64 for float64). Saves
/// nothing. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable adaptive_avg_pool(const Variable& x, std::int64_t height, std::int64_t width);

}  // namespace moh
