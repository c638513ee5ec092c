#pragma once

#include "train/families/images/data/picture_source.h"

namespace moh {

/// Pictures that need no files: a shape of one of eight kinds (the class) of any colour, size, angle and
/// place, on a background with a gradient, noise and smaller shapes in its way. Picture i is a function of
/// (seed, i); its class is i modulo 8. `side` >= 8 pixels.
PictureSourcePtr shape_pictures(std::int64_t count, int side, std::uint64_t seed);

/// Pictures of noise, `side` pixels wide and high, of `classes` classes in turns, for measurements: the cost
/// of a training step does not depend on what the pictures show. Picture i is a function of (seed, i).
PictureSourcePtr noise_pictures(std::int64_t count, std::int64_t classes, int side, std::uint64_t seed);

}  // namespace moh
