#pragma once

#include <cstdint>
#include <vector>

#include "train/base/formats/pictures/picture.h"

namespace moh {

/// Filters of resize(), named as in Pillow.
enum class Filter {
  kBox,       ///< the mean of an area
  kBilinear,  ///< a triangle, of support 1
  kBicubic,   ///< Keys' cubic with a = -1/2, of support 2
};

/// The weights of a resampling in one direction, in fixed point.
struct ResampleWeights {
  static constexpr int kBits = 22;  ///< of a weight after the point

  int first = 0, count = 0;           ///< the source's pixels that are used: [first, first + count)
  int taps = 0;                       ///< weights of each pixel of the result
  std::vector<int> begins;            ///< first source pixel of each pixel of the result, from `first` on
  std::vector<std::int32_t> weights;  ///< [pixels of the result, taps], zeros at the end of a row
};

/// The weights of pixels [begin, end) of a line of `to` pixels that is resampled from `from` pixels. As
/// Pillow's: the filter is stretched by the scale where the line shrinks (antialiasing), its weights are cut
/// at the borders, normalised in double precision and then rounded.
ResampleWeights resample_weights(int from, int to, Filter filter, int begin, int end);

/// Resizes pictures of one size to another, or computes a part of the result: the pixels of Pillow's
/// Image.resize, bit for bit. Horizontally first, then vertically, rounded to 8 bits after each, as there.
class Resize {
 public:
  /// Throws ValueError unless both sizes are at least 1 x 1 and `part` lies within `to`.
  Resize(PictureSize from, PictureSize to, Filter filter, const PictureBox& part);

  /// The region of the picture of size `from` on which the part depends.
  const PictureBox& source() const { return source_; }
  /// The part, of size part.size(). `source` has the pixels of source().
  Picture operator()(const Picture& source) const;

 private:
  PictureBox source_;
  PictureSize size_;
  bool horizontal_ = false, vertical_ = false;  ///< where false, pixels are copied
  ResampleWeights columns_, rows_;
};

/// All of a picture.
Picture resize(const Picture& picture, PictureSize size, Filter filter);

/// The size of a picture whose shorter side is resized to `side`, as torchvision's Resize(side): the longer
/// one is rounded down.
PictureSize resized_to_short_side(PictureSize size, int side);

}  // namespace moh
