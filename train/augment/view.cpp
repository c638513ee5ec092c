#include "train/augment/view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"

namespace moh {

namespace {

PictureBox intersection(const PictureBox& box, PictureSize size) {
  const int left = std::max(0, box.left), top = std::max(0, box.top);
  return {left, top, std::min(size.width, box.right()) - left, std::min(size.height, box.bottom()) - top};
}

/// Where `inner` of `outer` pixels in the middle begin. Halves are rounded to the even neighbour, as by
/// Python's round(); missing pixels are added on both sides, an odd one at the end.
int centered(int outer, int inner) {
  if (inner > outer) return -((inner - outer) / 2);
  return static_cast<int>(std::nearbyint((outer - inner) / 2.0));
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

}  // namespace moh
