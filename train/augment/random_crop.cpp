#include "train/augment/random_crop.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moh {

namespace {

constexpr int kTries = 10;

/// Halves to the even neighbour, as Python's round().
int rounded(double value) {
  return static_cast<int>(std::nearbyint(value));
}

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

std::vector<AugmentOp> draw_color_jitter(const ColorJitter& options, Draws& draws) {
  std::vector<AugmentOp> ops;
  const auto add = [&](AugmentKind kind, double range) {
    if (range > 0) ops.push_back({kind, draws.uniform(std::max(0.0, 1 - range), 1 + range)});
  };
  add(AugmentKind::kBrightness, options.brightness);
  add(AugmentKind::kContrast, options.contrast);
  add(AugmentKind::kColor, options.saturation);
  if (options.hue > 0) ops.push_back({AugmentKind::kHue, draws.uniform(-options.hue, options.hue)});
  for (std::size_t i = ops.size(); i > 1; --i) std::swap(ops[i - 1], ops[draws.below(i)]);
  return ops;
}

}  // namespace moh
