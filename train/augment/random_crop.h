#pragma once

#include <array>

#include "train/augment/draws.h"
#include "train/augment/rand_augment.h"
#include "train/base/formats/pictures/picture.h"

namespace moh {

/// A random resized crop, as torchvision draws it.
struct RandomCrop {
  std::array<double, 2> scale = {0.08, 1};           ///< share of the picture's area, uniform
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  ///< width / height, log-uniform
};

/// The box to crop: the first of ten that fits into the picture, else the largest one in the middle whose
/// ratio is within bounds.
PictureBox draw_crop(const RandomCrop& options, PictureSize size, Draws& draws);

/// Factors of brightness, contrast and saturation are uniform in 1 - x ... 1 + x, not below 0; hues turn by
/// -x ... x of the colour wheel, x at most 0.5 (torchvision's ColorJitter).
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

/// Draws the changes whose option is not 0, in random order.
std::vector<AugmentOp> draw_color_jitter(const ColorJitter& options, Draws& draws);

}  // namespace moh
