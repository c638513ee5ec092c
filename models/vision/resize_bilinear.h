#pragma once

#include <cstdint>
#include <span>

#include "models/vision/relative_positions.h"

namespace moh {

/// Where a pixel of a resized picture is in the other one; without antialiasing in both. The pictures of
/// programs that compute FID differ by this, and their numbers with them.
enum class PixelCenters {
  kCorner,  ///< pixel i is at i * scale, as in TensorFlow 1 (align_corners and half_pixel_centers false)
  kHalf,    ///< at (i + 1/2) * scale - 1/2, as torch.nn.functional.interpolate (align_corners false)
};

/// Bilinear interpolation of `from` (height x width pixels of three bytes), in float32, to `to`, of the range
/// of the bytes. Throws ValueError for an empty size, and spans of other sizes.
void resize_bilinear(std::span<const std::uint8_t> from, const GridSize& from_size, PixelCenters centers,
                     std::span<float> to, const GridSize& to_size);

}  // namespace moh
