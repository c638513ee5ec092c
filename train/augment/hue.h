#pragma once

#include "train/base/formats/pictures/picture.h"

namespace moh {

/// Turns the hues, in place, by `turns` of the colour wheel, -0.5 ... 0.5, with the pixels of torchvision's
/// adjust_hue of a Pillow image: in 256 hues of Pillow's HSV, `turns` * 255 of them on, rounded towards 0.
void adjust_hue(Picture& picture, double turns);

}  // namespace moh
