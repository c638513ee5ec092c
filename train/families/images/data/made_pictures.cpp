#include "train/families/images/data/made_pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "core/philox.h"
#include "core/random.h"
#include "train/augment/draws.h"
#include "train/families/images/data/checked_source.h"
#include "train/families/images/data/class_list.h"

namespace moh {

namespace {

constexpr std::uint64_t kShapeStream = 0x73686170;  // far from the streams of a step and of the data order
constexpr int kSamples = 2;                         ///< per pixel and direction
constexpr double kPi = std::numbers::pi;

const std::vector<std::string>& names() {
  static const std::vector<std::string> list = {"disc",     "ring", "square", "frame",
                                                "triangle", "star", "cross",  "crescent"};
  return list;
}

double cut_angle(double angle, double period) {
  return angle - period * std::floor(angle / period + 0.5);
}

/// Inside of a regular polygon of apothem r.
bool in_polygon(double x, double y, int sides, double r) {
  const double period = 2 * kPi / sides;
  return std::hypot(x, y) * std::cos(cut_angle(std::atan2(y, x), period)) < r;
}

/// Whether a point is in a shape of its kind that fills the circle of radius 1.
bool is_inside(std::int64_t kind, double x, double y) {
  const double radius = std::hypot(x, y), across = std::max(std::abs(x), std::abs(y));
  switch (kind) {
    case 0:
      return radius < 0.85;
    case 1:
      return radius < 0.95 && radius > 0.6;
    case 2:
      return across < 0.72;
    case 3:
      return across < 0.75 && across > 0.45;
    case 4:
      return in_polygon(x, y, 3, 0.5);
    case 5: {
      const double turn = std::abs(cut_angle(std::atan2(y, x), 2 * kPi / 5)) / (kPi / 5);
      return radius < 1 - 0.6 * turn;
    }
    case 6:
      return across < 0.85 && std::min(std::abs(x), std::abs(y)) < 0.27;
    default:
      return radius < 0.9 && std::hypot(x - 0.5, y) > 0.75;
  }
}

struct Color {
  std::array<double, 3> rgb;
};

Color draw_color(Draws& draws) {
  return {{draws.uniform(0, 255), draws.uniform(0, 255), draws.uniform(0, 255)}};
}

double distance(const Color& a, const Color& b) {
  double sum = 0;
  for (std::size_t c = 0; c < 3; ++c) sum += (a.rgb[c] - b.rgb[c]) * (a.rgb[c] - b.rgb[c]);
  return std::sqrt(sum);
}

/// A colour that can be told from the background.
Color draw_foreground(const Color& background, Draws& draws) {
  for (int i = 0; i < 20; ++i) {
    const Color color = draw_color(draws);
    if (distance(color, background) > 110) return color;
  }
  return {{255 - background.rgb[0], 255 - background.rgb[1], 255 - background.rgb[2]}};
}

struct Placed {
  std::int64_t kind;
  double x, y, radius, cosine, sine;
  Color color;

  /// The share of a pixel that the shape covers.
  double cover(int column, int row) const {
    int inside = 0;
    for (int i = 0; i < kSamples * kSamples; ++i) {
      const double dx = (column + (i % kSamples + 0.5) / kSamples - x) / radius;
      const double dy = (row + (i / kSamples + 0.5) / kSamples - y) / radius;  // NOLINT: samples by number
      inside += is_inside(kind, dx * cosine + dy * sine, dy * cosine - dx * sine) ? 1 : 0;
    }
    return inside / static_cast<double>(kSamples * kSamples);
  }
};

Placed draw_shape(std::int64_t kind, int side, double smallest, double largest, const Color& background,
                  Draws& draws) {
  const double radius = side * draws.uniform(smallest, largest), angle = draws.uniform(0, 2 * kPi);
  const double x = draws.uniform(0.8 * radius, side - 0.8 * radius);
  const double y = draws.uniform(0.8 * radius, side - 0.8 * radius);
  return {kind, x, y, radius, std::cos(angle), std::sin(angle), draw_foreground(background, draws)};
}

class ShapePictures final : public PictureSource {
 public:
  ShapePictures(std::int64_t count, int side, std::uint64_t seed) : count_(count), side_(side), seed_(seed) {}

  std::int64_t size() const override { return count_; }
  std::int64_t label(std::int64_t index) const override { return index % std::ssize(names()); }
  const std::vector<std::string>& class_names() const override { return names(); }
  std::string name(std::int64_t index) const override { return "drawn picture " + std::to_string(index); }
  std::string describe_contents() const override {
    return std::to_string(count_) + " drawn pictures of " + std::to_string(side_) + " pixels, seed " +
           std::to_string(seed_);
  }

  void load(std::int64_t, std::vector<std::byte>& bytes) const override { bytes.clear(); }
  Picture decode(std::int64_t index, const std::vector<std::byte>&, ChooseRegion region) const override {
    Draws draws({seed_, kShapeStream}, static_cast<std::uint64_t>(index) * Draws::kPerSample);
    const Color background = draw_color(draws);
    std::vector<Placed> shapes;
    for (int i = draws.up_to(2); i > 0; --i) {  // small ones, of any kind, behind
      const auto kind = static_cast<std::int64_t>(draws.below(names().size()));
      shapes.push_back(draw_shape(kind, side_, 0.06, 0.1, background, draws));
    }
    shapes.push_back(draw_shape(label(index), side_, 0.24, 0.42, background, draws));
    const double slope_x = draws.uniform(-40, 40), slope_y = draws.uniform(-40, 40),
                 noise = draws.uniform(2, 14);
    const PictureBox box = region({side_, side_});
    Picture picture(box.size());
    for (int y = 0; y < box.height; ++y) {
      std::uint8_t* to = picture.row(y);
      for (int x = 0; x < box.width; ++x, to += Picture::kChannels) {
        const int column = box.left + x, row = box.top + y;
        Color color = background;
        for (double& value : color.rgb)
          value += slope_x * (column / double(side_) - 0.5) + slope_y * (row / double(side_) - 0.5);
        for (const Placed& shape : shapes) {
          const double cover = shape.cover(column, row);
          for (std::size_t c = 0; c < 3; ++c) color.rgb[c] += cover * (shape.color.rgb[c] - color.rgb[c]);
        }
        const auto place = static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(side_) +
                           static_cast<std::uint64_t>(column);
        const double grain = noise * random_normal(draws.key(), draws.next_index() + place);
        for (std::size_t c = 0; c < 3; ++c)
          to[c] = static_cast<std::uint8_t>(std::clamp(color.rgb[c] + grain, 0.0, 255.0));
      }
    }
    return picture;
  }

 private:
  std::int64_t count_;
  int side_;
  std::uint64_t seed_;
};

}  // namespace

PictureSourcePtr shape_pictures(std::int64_t count, int side, std::uint64_t seed) {
  if (count < 1 || side < 8) {
    throw ValueError(error_message("drawn pictures", "number and side", "at least 1 and 8 pixels",
                                   std::to_string(count) + " and " + std::to_string(side)));
  }
  return checked_turn<PictureSource>(std::make_shared<ShapePictures>(count, side, seed));
}

namespace {

constexpr std::uint64_t kNoiseStream = std::uint64_t{3} << 52;

class NoisePictures final : public PictureSource {
 public:
  NoisePictures(std::int64_t count, std::int64_t classes, int side, std::uint64_t seed)
      : count_(count), names_(classes), side_(side), seed_(seed) {}

  std::int64_t size() const override { return count_; }
  std::int64_t label(std::int64_t index) const override { return index % num_classes(); }
  const std::vector<std::string>& class_names() const override { return names_.get(); }
  std::int64_t num_classes() const override { return names_.size(); }
  std::string name(std::int64_t index) const override { return "noise " + std::to_string(index); }
  std::string describe_contents() const override { return std::to_string(count_) + " pictures of noise"; }

  void load(std::int64_t, std::vector<std::byte>& bytes) const override { bytes.clear(); }
  Picture decode(std::int64_t index, const std::vector<std::byte>&, ChooseRegion region) const override {
    Picture picture(region({side_, side_}).size());
    // A number is drawn for a row, which it fills: noise for each pixel would cost more than a small step.
    const RandomKey key{seed_, kNoiseStream | static_cast<std::uint64_t>(index)};
    for (int y = 0; y < picture.height(); ++y) {
      const std::uint64_t first = random_below(key, static_cast<std::uint64_t>(y), std::uint64_t{1} << 24);
      for (std::size_t x = 0; x < picture.row_bytes(); ++x)
        picture.row(y)[x] = static_cast<std::uint8_t>((first + x * 89) >> 3);
    }
    return picture;
  }

 private:
  std::int64_t count_;
  NumberNames names_;
  int side_;
  std::uint64_t seed_;
};

}  // namespace

PictureSourcePtr noise_pictures(std::int64_t count, std::int64_t classes, int side, std::uint64_t seed) {
  return checked_turn<PictureSource>(std::make_shared<NoisePictures>(count, classes, side, seed));
}

}  // namespace moh
