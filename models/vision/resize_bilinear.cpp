#include "models/vision/resize_bilinear.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::int64_t kChannels = 3;

/// The two pixels that one of the result is between, and the share of the second.
struct Between {
  std::int64_t first = 0, second = 0;
  float share = 0;
};

std::vector<Between> along(std::int64_t from, std::int64_t to, PixelCenters centers) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<Between> all;
  for (std::int64_t i = 0; i < to; ++i) {
    const float at = centers == PixelCenters::kCorner
                         ? static_cast<float>(i) * scale
                         : std::max((static_cast<float>(i) + 0.5F) * scale - 0.5F, 0.0F);
    const std::int64_t first = std::min(static_cast<std::int64_t>(at), from - 1);
    all.push_back({first, std::min(first + 1, from - 1), at - static_cast<float>(first)});
  }
  return all;
}

void require(const GridSize& size, std::size_t numbers) {
  const std::int64_t expected = size.height * size.width * kChannels;
  if (size.height >= 1 && size.width >= 1 && static_cast<std::int64_t>(numbers) == expected) return;
  throw ValueError(error_message("resize_bilinear", "picture", "1 or more pixels, of three numbers each",
                                 std::to_string(size.height) + " x " + std::to_string(size.width) + " and " +
                                     std::to_string(numbers) + " numbers"));
}

float between(float a, float b, float share) {
  return a + (b - a) * share;
}

}  // namespace

void resize_bilinear(std::span<const std::uint8_t> from, const GridSize& from_size, PixelCenters centers,
                     std::span<float> to, const GridSize& to_size) {
  require(from_size, from.size());
  require(to_size, to.size());
  const std::vector<Between> rows = along(from_size.height, to_size.height, centers),
                             columns = along(from_size.width, to_size.width, centers);
  float* out = to.data();
  for (const Between& y : rows) {
    const std::uint8_t *above = from.data() + y.first * from_size.width * kChannels,
                       *below = from.data() + y.second * from_size.width * kChannels;
    for (const Between& x : columns) {
      for (std::int64_t c = 0; c < kChannels; ++c) {
        const auto in_row = [&](const std::uint8_t* row) {
          return between(row[x.first * kChannels + c], row[x.second * kChannels + c], x.share);
        };
        *out++ = between(in_row(above), in_row(below), y.share);
      }
    }
  }
}

}  // namespace moh
