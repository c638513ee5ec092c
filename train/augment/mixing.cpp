#include "train/augment/mixing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace moh {

namespace {

/// Gamma(shape, 1) by Marsaglia & Tsang 2000, "A simple method for generating gamma variables".
double draw_gamma(double shape, Draws& draws) {
  if (shape < 1) {
    const double larger = draw_gamma(shape + 1, draws);
    return larger * std::pow(1 - draws.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draws.normal(), root = 1 + c * x, v = root * root * root;
    const double u = 1 - draws.uniform();
    if (root > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

std::size_t values_of(PictureSize size) {
  return static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height) * Picture::kChannels;
}

/// a becomes own * a + other * b, and b the reverse, each product rounded.
void mix_values(std::span<float> a, std::span<float> b, float own, float other) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = a[i], y = b[i];
    a[i] = x * own + y * other;
    b[i] = y * own + x * other;
  }
}

}  // namespace

double draw_beta(double alpha, Draws& draws) {
  const double a = draw_gamma(alpha, draws), b = draw_gamma(alpha, draws);
  return a + b > 0 ? a / (a + b) : 0.5;
}

Mix cutmix_at(double lambda, int x, int y, PictureSize size) {
  const double side = std::sqrt(1 - lambda);
  const int half_width = static_cast<int>(size.width * side) / 2;
  const int half_height = static_cast<int>(size.height * side) / 2;
  const int left = std::max(0, x - half_width), right = std::min(size.width, x + half_width);
  const int top = std::max(0, y - half_height), bottom = std::min(size.height, y + half_height);
  const PictureBox box{left, top, right - left, bottom - top};
  const double area = static_cast<double>(box.width) * box.height;
  return {1 - area / (static_cast<double>(size.width) * size.height), box};
}

Mix draw_mix(const Mixing& options, PictureSize size, Draws& draws) {
  const bool mixup = options.mixup_alpha > 0, cutmix = options.cutmix_alpha > 0;
  if (!(mixup || cutmix) || !draws.chance(options.probability)) return {};
  const bool cut = cutmix && (!mixup || draws.chance(options.cutmix_share));
  const double lambda = draw_beta(cut ? options.cutmix_alpha : options.mixup_alpha, draws);
  if (!cut) return {lambda, {}};
  const int x = draws.up_to(size.width - 1), y = draws.up_to(size.height - 1);
  return cutmix_at(lambda, x, y, size);
}

void mix_pictures(std::span<float> pictures, std::int64_t count, PictureSize size, const Mix& mix) {
  const std::size_t values = values_of(size);
  MOH_CHECK(pictures.size() == values * static_cast<std::size_t>(count), "mix_pictures: sizes differ");
  if (mix.lambda == 1) return;
  const auto row = static_cast<std::size_t>(size.width) * Picture::kChannels;
  for (std::int64_t i = 0; i <= count - 1 - i; ++i) {
    const auto a = pictures.subspan(static_cast<std::size_t>(i) * values, values);
    const auto b = pictures.subspan(static_cast<std::size_t>(count - 1 - i) * values, values);
    if (mix.box.width == 0) {
      mix_values(a, b, static_cast<float>(mix.lambda), static_cast<float>(1 - mix.lambda));
      continue;
    }
    const auto begin = static_cast<std::size_t>(mix.box.left) * Picture::kChannels;
    const auto length = static_cast<std::size_t>(mix.box.width) * Picture::kChannels;
    for (int y = mix.box.top; y < mix.box.bottom(); ++y) {
      const std::size_t at = static_cast<std::size_t>(y) * row + begin;
      std::ranges::swap_ranges(a.subspan(at, length), b.subspan(at, length));
    }
  }
}

void soft_targets(std::span<const std::int64_t> labels, std::int64_t classes, double smoothing, double lambda,
                  std::span<float> to) {
  const auto width = static_cast<std::size_t>(classes);
  MOH_CHECK(to.size() == labels.size() * width, "soft_targets: the result has another size");
  for (const std::int64_t label : labels) {
    if (label < 0 || label >= classes)
      throw ValueError(
          error_message("targets", "label", "0 to " + std::to_string(classes - 1), std::to_string(label)));
  }
  const double off = smoothing / static_cast<double>(classes);
  const auto low = static_cast<float>(off), high = static_cast<float>(1 - smoothing + off);
  const auto own = static_cast<float>(lambda), other = static_cast<float>(1 - lambda);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto mine = static_cast<std::size_t>(labels[i]);
    const auto theirs = static_cast<std::size_t>(labels[labels.size() - 1 - i]);
    const auto row = to.subspan(i * width, width);
    const auto value = [&](std::size_t c) {
      return (c == mine ? high : low) * own + (c == theirs ? high : low) * other;
    };
    std::ranges::fill(row, low * own + low * other);
    row[mine] = value(mine);
    row[theirs] = value(theirs);
  }
}

}  // namespace moh
