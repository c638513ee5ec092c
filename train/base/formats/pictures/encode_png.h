#pragma once

#include <string>

#include "train/base/formats/pictures/picture.h"

namespace moh {

/// The picture as a PNG file of 8-bit RGB, without loss. It has 1 pixel or more.
std::string encode_png(const Picture& picture);

}  // namespace moh
