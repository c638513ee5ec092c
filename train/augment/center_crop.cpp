#include "train/augment/center_crop.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "train/augment/view.h"

namespace moh {

Picture center_crop(Picture picture, int side) {
  if (side < 1 || picture.width() < 1 || picture.height() < 1)
    throw ValueError(error_message("center_crop", "sides", "at least 1 pixel",
                                   to_string(picture.size()) + ", to " + std::to_string(side)));
  const auto shorter = [&] { return std::min(picture.width(), picture.height()); };
  while (shorter() / 2 >= side)
    picture = resize(picture, {picture.width() / 2, picture.height() / 2}, Filter::kBox);
  const double scale = double{1} * side / shorter();
  const auto scaled = [scale](int length) {  // as Python's round(): halves to the even neighbour
    return static_cast<int>(std::nearbyint(length * scale));
  };
  const PictureSize resized{scaled(picture.width()), scaled(picture.height())};
  const PictureBox middle{(resized.width - side) / 2, (resized.height - side) / 2, side, side};
  const PictureView view(whole(picture.size()), resized, Filter::kBicubic, middle);
  const PictureBox needed = view.source();
  if (needed == whole(picture.size())) return view(picture);
  Picture part(needed.size());
  const auto left = static_cast<std::size_t>(needed.left) * Picture::kChannels;
  for (int y = 0; y < needed.height; ++y)
    std::copy_n(picture.row(needed.top + y) + left, part.row_bytes(), part.row(y));
  return view(part);
}

}  // namespace moh
