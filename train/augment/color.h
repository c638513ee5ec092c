#pragma once

#include "train/base/formats/pictures/picture.h"

namespace moh {

// Changes of colours, in place, with the pixels of Pillow's ImageOps and ImageEnhance.

/// Stretches each channel so that its darkest value becomes 0 and its brightest 255.
void auto_contrast(Picture& picture);
/// Makes the values of each channel about equally frequent.
void equalize(Picture& picture);
/// 255 - v.
void invert(Picture& picture);
/// Keeps the upper `bits` of each value, 0 ... 8.
void posterize(Picture& picture, int bits);
/// Inverts values of at least `threshold`.
void solarize(Picture& picture, int threshold);
/// Adds to values below 128, up to 255 (timm's SolarizeAdd).
void solarize_add(Picture& picture, int addend);

// Blends with a picture that lacks something: factor 0 gives that one, 1 changes nothing, above 1
// exaggerates. Factors are at least 0.

/// With black.
void adjust_brightness(Picture& picture, double factor);
/// With the mean luminance.
void adjust_contrast(Picture& picture, double factor);
/// With the luminance of each pixel.
void adjust_saturation(Picture& picture, double factor);
/// With a smoothed picture.
void adjust_sharpness(Picture& picture, double factor);

}  // namespace moh
