#include "train/augment/crop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"

namespace moh {

namespace {

/// Halves to the even neighbour, as Python's round().
int rounded(double value) {
  return static_cast<int>(std::nearbyint(value));
}

PictureBox intersection(const PictureBox& box, PictureSize size) {
  const int left = std::max(0, box.left), top = std::max(0, box.top);
  return {left, top, std::min(size.width, box.right()) - left, std::min(size.height, box.bottom()) - top};
}

/// Where `inner` of `outer` pixels in the middle begin; missing pixels are added on both sides, an odd one at
/// the end.
int centered(int outer, int inner) {
  if (inner > outer) return -((inner - outer) / 2);
  return rounded((outer - inner) / 2.0);
}

/// The middle of a picture that was resized.
PictureView middle_of(PictureSize picture, PictureSize resized, int crop, Filter filter) {
  const PictureBox part{centered(resized.width, crop), centered(resized.height, crop), crop, crop};
  return {whole(picture), resized, filter, part};
}

}  // namespace

PictureView::PictureView(const PictureBox& crop, PictureSize resized, Filter filter, const PictureBox& part)
    : crop_(crop),
      part_(part),
      inside_(intersection(part, resized)),
      resize_(crop.size(), resized, filter, inside_) {}

PictureBox PictureView::source() const {
  PictureBox box = resize_.source();
  box.left += crop_.left;
  box.top += crop_.top;
  return box;
}

Picture PictureView::operator()(const Picture& source) const {
  Picture inside = resize_(source);
  if (inside_ == part_) return inside;
  Picture view(part_.size());
  std::ranges::fill(view.bytes(), 0);
  const auto left = static_cast<std::size_t>(inside_.left - part_.left) * Picture::kChannels;
  for (int y = 0; y < inside.height(); ++y)
    std::memcpy(view.row(inside_.top - part_.top + y) + left, inside.row(y), inside.row_bytes());
  return view;
}

PictureView crop_view(const PictureBox& crop, PictureSize size, Filter filter) {
  return {crop, size, filter, whole(size)};
}

PictureView center_view(PictureSize picture, int short_side, int crop, Filter filter) {
  return middle_of(picture, resized_to_short_side(picture, short_side), crop, filter);
}

PictureView squashed_view(PictureSize picture, int side, int crop, Filter filter) {
  return middle_of(picture, {side, side}, crop, filter);
}

void flip(Picture& picture) {
  for (int y = 0; y < picture.height(); ++y) {
    std::uint8_t* left = picture.row(y);
    std::uint8_t* right = left + picture.row_bytes() - Picture::kChannels;
    for (; left < right; left += Picture::kChannels, right -= Picture::kChannels)
      std::swap_ranges(left, left + Picture::kChannels, right);
  }
}

namespace {

constexpr int kTries = 10;

PictureBox in_the_middle(int width, int height, PictureSize size) {
  return {(size.width - width) / 2, (size.height - height) / 2, width, height};
}

}  // namespace

PictureBox draw_crop(const RandomCrop& options, PictureSize size, Draws& draws) {
  const double area = static_cast<double>(size.width) * size.height;
  for (int i = 0; i < kTries; ++i) {
    const double target = area * draws.uniform(options.scale[0], options.scale[1]);
    const double ratio = std::exp(draws.uniform(std::log(options.ratio[0]), std::log(options.ratio[1])));
    const int width = rounded(std::sqrt(target * ratio)), height = rounded(std::sqrt(target / ratio));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    const int top = draws.up_to(size.height - height);
    return {draws.up_to(size.width - width), top, width, height};
  }
  const double ratio = static_cast<double>(size.width) / size.height;
  if (ratio < options.ratio[0])
    return in_the_middle(size.width, std::max(1, rounded(size.width / options.ratio[0])), size);
  if (ratio > options.ratio[1])
    return in_the_middle(std::max(1, rounded(size.height * options.ratio[1])), size.height, size);
  return whole(size);
}

Picture center_crop(Picture picture, int side) {
  if (side < 1 || picture.width() < 1 || picture.height() < 1)
    throw ValueError(error_message("center_crop", "sides", "at least 1 pixel",
                                   to_string(picture.size()) + ", to " + std::to_string(side)));
  const auto shorter = [&] { return std::min(picture.width(), picture.height()); };
  while (shorter() / 2 >= side)
    picture = resize(picture, {picture.width() / 2, picture.height() / 2}, Filter::kBox);
  const double scale = double{1} * side / shorter();
  const PictureSize resized{rounded(picture.width() * scale), rounded(picture.height() * scale)};
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
