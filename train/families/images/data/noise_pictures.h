#pragma once

#include "train/families/images/data/picture_source.h"

namespace moh {

/// Pictures of noise, `side` pixels wide and high, of `classes` classes in turns, for measurements: the cost
/// of a training step does not depend on what the pictures show. Picture i is a function of (seed, i).
PictureSourcePtr noise_pictures(std::int64_t count, std::int64_t classes, int side, std::uint64_t seed);

}  // namespace moh
