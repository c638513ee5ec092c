#pragma once

#include <array>

#include "train/base/formats/pictures/picture.h"

namespace moh {

/// A colour: red, green, blue.
using Rgb = std::array<std::uint8_t, 3>;

/// From pixels of the result to the source: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5], where
/// pixel centres have halves.
using AffineMap = std::array<double, 6>;

/// A picture of the same size, interpolated bicubically (a = -1) at the places that the map names; `fill`
/// where they lie outside. The pixels of Pillow's Image.transform with AFFINE and BICUBIC, which has no
/// antialiasing.
Picture transform(const Picture& picture, const AffineMap& map, Rgb fill);

/// Rotates counter-clockwise about the middle, by any angle: Pillow's Image.rotate with BICUBIC.
Picture rotate(const Picture& picture, double degrees, Rgb fill);

/// Skews: x' = x + factor y, or y' = y + factor x.
Picture shear_x(const Picture& picture, double factor, Rgb fill);
Picture shear_y(const Picture& picture, double factor, Rgb fill);

/// Moves to the left by this share of the width, or up by this share of the height.
Picture translate_x(const Picture& picture, double share, Rgb fill);
Picture translate_y(const Picture& picture, double share, Rgb fill);

}  // namespace moh
