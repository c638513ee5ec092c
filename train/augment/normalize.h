#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "train/augment/draws.h"
#include "train/base/formats/pictures/picture.h"

namespace moh {

/// Mean and standard deviation of each channel, of values from 0 to 1.
struct ChannelStatistics {
  std::array<double, 3> mean = {0.485, 0.456, 0.406};  ///< of ImageNet
  std::array<double, 3> std = {0.229, 0.224, 0.225};
};

/// Turns 8-bit values into floats: (v / 255 - mean) / std of their channel, each operation rounded to
/// float32, as by torchvision's ToTensor and Normalize.
class ChannelNormalizer {
 public:
  explicit ChannelNormalizer(const ChannelStatistics& statistics);

  /// to: [height, width, 3].
  void operator()(const Picture& picture, std::span<float> to) const;

 private:
  std::array<std::array<float, 256>, 3> tables_;
};

/// Random erasing (Zhong et al. 2017, arXiv 1708.04896): one box of a normalised picture becomes noise, as in
/// timm's RandomErasing with mode `pixel`.
struct RandomErasing {
  double probability = 0.25;
  std::array<double, 2> area = {0.02, 1.0 / 3};   ///< share of the picture's area, uniform
  std::array<double, 2> aspect = {0.3, 1 / 0.3};  ///< height / width, log-uniform
};

/// The first of ten boxes that is smaller than the picture in both directions; nothing if there is none, or
/// with 1 - probability.
std::optional<PictureBox> draw_erased_box(const RandomErasing& options, PictureSize size, Draws& draws);

/// Fills the box of `picture`, [size.height, size.width, 3], with standard normal numbers: those of the key,
/// from index `first` on, by rows of the box.
void erase(std::span<float> picture, PictureSize size, const PictureBox& box, RandomKey key,
           std::uint64_t first);

}  // namespace moh
