#include "train/augment/normalize.h"

#include <cmath>
#include <cstddef>

#include "core/error.h"

namespace moh {

namespace {

constexpr int kErasingTries = 10;

}  // namespace

ChannelNormalizer::ChannelNormalizer(const ChannelStatistics& statistics) {
  for (std::size_t c = 0; c < 3; ++c) {
    const auto mean = static_cast<float>(statistics.mean[c]), std = static_cast<float>(statistics.std[c]);
    for (std::size_t v = 0; v < 256; ++v) tables_[c][v] = (static_cast<float>(v) / 255.0F - mean) / std;
  }
}

void ChannelNormalizer::operator()(const Picture& picture, std::span<float> to) const {
  const auto bytes = picture.bytes();
  MOH_CHECK(to.size() == bytes.size(), "ChannelNormalizer: the result has another size than the picture");
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    to[i] = tables_[0][bytes[i]];
    to[i + 1] = tables_[1][bytes[i + 1]];
    to[i + 2] = tables_[2][bytes[i + 2]];
  }
}

std::optional<PictureBox> draw_erased_box(const RandomErasing& options, PictureSize size, Draws& draws) {
  if (!draws.chance(options.probability)) return std::nullopt;
  const double area = static_cast<double>(size.width) * size.height;
  for (int i = 0; i < kErasingTries; ++i) {
    const double target = area * draws.uniform(options.area[0], options.area[1]);
    const double aspect = std::exp(draws.uniform(std::log(options.aspect[0]), std::log(options.aspect[1])));
    const int height = static_cast<int>(std::nearbyint(std::sqrt(target * aspect)));
    const int width = static_cast<int>(std::nearbyint(std::sqrt(target / aspect)));
    if (width >= size.width || height >= size.height) continue;
    const int top = draws.up_to(size.height - height);
    return PictureBox{draws.up_to(size.width - width), top, width, height};
  }
  return std::nullopt;
}

void erase(std::span<float> picture, PictureSize size, const PictureBox& box, RandomKey key,
           std::uint64_t first) {
  const std::size_t row = static_cast<std::size_t>(box.width) * Picture::kChannels;
  for (int y = box.top; y < box.bottom(); ++y, first += row) {
    const std::size_t begin = (static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width) +
                               static_cast<std::size_t>(box.left)) *
                              Picture::kChannels;
    random_normals(key, first, picture.subspan(begin, row));
  }
}

}  // namespace moh
