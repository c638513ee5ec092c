#pragma once

#include <array>

#include "train/augment/draws.h"
#include "train/augment/resize.h"
#include "train/base/formats/pictures/picture.h"

namespace moh {

/// The part of a picture that a model sees: a crop of it, resized, and a part of that. Only pixels on which
/// the result depends are decoded and computed; the result is that of doing the three one after the other.
class PictureView {
 public:
  /// `crop`: of the picture. `part`: of the crop resized to `resized`; where it reaches beyond, the result is
  /// black. Throws ValueError for empty sizes, and for a part outside of the resized crop.
  PictureView(const PictureBox& crop, PictureSize resized, Filter filter, const PictureBox& part);

  /// The part of the picture that is needed, for decode_picture().
  PictureBox source() const;
  /// The view, from the pixels of source().
  Picture operator()(const Picture& source) const;

 private:
  PictureBox crop_, part_, inside_;  ///< inside_: of the part, what is not beyond the resized crop
  Resize resize_;
};

/// The crop of a random resized crop, resized to `size` (torchvision's resized_crop).
PictureView crop_view(const PictureBox& crop, PictureSize size, Filter filter);

/// The view for evaluations: shorter side resized to `short_side`, then the `crop` x `crop` pixels in the
/// middle (torchvision's Resize and CenterCrop). Black beyond the picture's borders.
PictureView center_view(PictureSize picture, int short_side, int crop, Filter filter);

/// The view of a picture with both sides resized to `side`, whatever the picture's shape (torchvision's
/// Resize of two numbers, timm's crop mode `squash`).
PictureView squashed_view(PictureSize picture, int side, int crop, Filter filter);

/// Mirrors left and right.
void flip(Picture& picture);

/// A random resized crop, as torchvision draws it.
struct RandomCrop {
  std::array<double, 2> scale = {0.08, 1};           ///< share of the picture's area, uniform
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  ///< width / height, log-uniform
};

/// The box to crop: the first of ten that fits into the picture, else the largest one in the middle whose
/// ratio is within bounds.
PictureBox draw_crop(const RandomCrop& options, PictureSize size, Draws& draws);

/// The square in the middle of a picture, `side` pixels a side, as guided-diffusion and DiT's code make it
/// (center_crop_arr): while the shorter side is at least twice `side`, both are halved, rounded down, by the
/// box filter; then the shorter one is resized to `side` by the bicubic filter, and the middle is taken. The
/// pixels are Pillow's, bit for bit. Throws ValueError for an empty picture, and for side < 1.
Picture center_crop(Picture picture, int side);

}  // namespace moh
