#include "train/augment/hue.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace moh {

namespace {

/// Hue, saturation and value as bytes (Smith 1978), with the roundings of Pillow's conversion.
struct Hsv {
  std::uint8_t hue, saturation, value;
};

/// Sixths of the colour wheel from red on, -1 ... 5, of a pixel whose channels differ.
float sixths(int red, int green, int blue, int most, float range) {
  const auto below = [=](int channel) { return static_cast<float>(most - channel) / range; };
  if (red == most) return below(blue) - below(green);
  // In double precision, as Pillow's C has it.
  if (green == most) return static_cast<float>(2.0 + below(red) - below(blue));
  return static_cast<float>(4.0 + below(green) - below(red));
}

Hsv hsv_of(const std::uint8_t* rgb) {
  const int red = rgb[0], green = rgb[1], blue = rgb[2];
  const auto [least, most] = std::minmax({red, green, blue});
  if (least == most) return {0, 0, rgb[0]};
  const auto range = static_cast<float>(most - least);
  const double wheel = sixths(red, green, blue, most, range) / 6.0 + 1.0;
  const auto hue = static_cast<float>(wheel >= 1 ? wheel - 1 : wheel);
  const float saturation = range / static_cast<float>(most);
  return {static_cast<std::uint8_t>(hue * 255.0), static_cast<std::uint8_t>(saturation * 255.0),
          static_cast<std::uint8_t>(most)};
}

std::array<std::uint8_t, 3> rgb_of(Hsv hsv) {
  const std::uint8_t v = hsv.value;
  if (hsv.saturation == 0) return {v, v, v};
  const double wheel = hsv.hue * 6.0 / 255.0, sector = std::floor(wheel), share = wheel - sector;
  const double saturation = hsv.saturation / 255.0;
  const auto less = [=](double part) {
    return static_cast<std::uint8_t>(std::floor(v * (1.0 - saturation * part) + 0.5));
  };
  const std::uint8_t p = less(1), q = less(share), t = less(1 - share);
  switch (static_cast<int>(sector) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

}  // namespace

void adjust_hue(Picture& picture, double turns) {
  const int on = static_cast<int>(turns * 255);
  const auto bytes = picture.bytes();
  for (std::size_t i = 0; i < bytes.size(); i += Picture::kChannels) {
    Hsv hsv = hsv_of(&bytes[i]);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + on);
    std::ranges::copy(rgb_of(hsv), &bytes[i]);
  }
}

}  // namespace moh
