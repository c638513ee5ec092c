#pragma once

#include "train/base/formats/pictures/picture.h"

namespace moh {

/// The square in the middle of a picture, `side` pixels a side, as guided-diffusion and DiT's code make it
/// (center_crop_arr): while the shorter side is at least twice `side`, both are halved, rounded down, by the
/// box filter; then the shorter one is resized to `side` by the bicubic filter, and the middle is taken. The
/// pixels are Pillow's, bit for bit. Throws ValueError for an empty picture, and for side < 1.
Picture center_crop(Picture picture, int side);

}  // namespace moh
