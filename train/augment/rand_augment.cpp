#include "train/augment/rand_augment.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/augment/color.h"
#include "train/augment/hue.h"

namespace moh {

namespace {

constexpr double kLevels = 10;
/// From this standard deviation on, timm draws the magnitude uniformly.
constexpr double kUniformStd = 100;

[[noreturn]] void refuse(std::string_view text) {
  throw ValueError(error_message("RandAugment", "",
                                 "a text such as rand-m9-mstd0.5-inc1, of m (0 ... 10), n, mstd, p, inc1",
                                 std::string(text)));
}

template <class Number>
bool read(std::string_view part, std::string_view name, Number& value, double low, double high) {
  if (!part.starts_with(name)) return false;
  part.remove_prefix(name.size());
  Number number{};
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error != std::errc() || end != part.data() + part.size() || !(number >= low && number <= high))
    return false;
  value = number;
  return true;
}

template <class Change, class... Arguments>
Picture changed(Picture picture, Change change, Arguments... arguments) {
  change(picture, arguments...);
  return picture;
}

}  // namespace

RandAugment RandAugment::parse(std::string_view text) {
  RandAugment options{.magnitude = 10, .magnitude_std = 0};
  std::string_view left = text;
  const auto next = [&] {
    const std::size_t end = std::min(left.find('-'), left.size());
    const std::string_view part = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    return part;
  };
  if (next() != "rand") refuse(text);
  int increasing = 0;
  while (!left.empty()) {
    const std::string_view part = next();
    const bool known = read(part, "mstd", options.magnitude_std, 0, 1e9) ||
                       read(part, "m", options.magnitude, 0, kLevels) ||
                       read(part, "n", options.ops, 0, 100) || read(part, "p", options.probability, 0, 1) ||
                       read(part, "inc", increasing, 0, 1);
    if (!known) refuse(text);
  }
  if (increasing != 1) refuse(text);
  return options;
}

double augment_value(AugmentKind kind, double level, bool negative) {
  const double sign = negative ? -1 : 1, share = level / kLevels;
  switch (kind) {
    case AugmentKind::kRotate:
      return sign * (share * 30);
    case AugmentKind::kPosterize:
      return 4 - static_cast<int>(share * 4);
    case AugmentKind::kSolarize:
      return 256 - std::min(256, static_cast<int>(share * 256));
    case AugmentKind::kSolarizeAdd:
      return std::min(128, static_cast<int>(share * 110));
    case AugmentKind::kColor:
    case AugmentKind::kContrast:
    case AugmentKind::kBrightness:
    case AugmentKind::kSharpness:
      return std::max(0.1, 1 + sign * (share * 0.9));
    case AugmentKind::kShearX:
    case AugmentKind::kShearY:
      return sign * (share * 0.3);
    case AugmentKind::kTranslateX:
    case AugmentKind::kTranslateY:
      return sign * (share * 0.45);
    case AugmentKind::kAutoContrast:
    case AugmentKind::kEqualize:
    case AugmentKind::kInvert:
    case AugmentKind::kHue:
      return 0;
  }
  fail_check(__FILE__, __LINE__, "kind", "unknown operation");
}

Picture apply(const AugmentOp& op, Picture picture, Rgb fill) {
  const int whole_value = static_cast<int>(op.value);
  switch (op.kind) {
    case AugmentKind::kAutoContrast:
      return changed(std::move(picture), auto_contrast);
    case AugmentKind::kEqualize:
      return changed(std::move(picture), equalize);
    case AugmentKind::kInvert:
      return changed(std::move(picture), invert);
    case AugmentKind::kPosterize:
      return changed(std::move(picture), posterize, whole_value);
    case AugmentKind::kSolarize:
      return changed(std::move(picture), solarize, whole_value);
    case AugmentKind::kSolarizeAdd:
      return changed(std::move(picture), solarize_add, whole_value);
    case AugmentKind::kColor:
      return changed(std::move(picture), adjust_saturation, op.value);
    case AugmentKind::kContrast:
      return changed(std::move(picture), adjust_contrast, op.value);
    case AugmentKind::kBrightness:
      return changed(std::move(picture), adjust_brightness, op.value);
    case AugmentKind::kSharpness:
      return changed(std::move(picture), adjust_sharpness, op.value);
    case AugmentKind::kRotate:
      return rotate(picture, op.value, fill);
    case AugmentKind::kShearX:
      return shear_x(picture, op.value, fill);
    case AugmentKind::kShearY:
      return shear_y(picture, op.value, fill);
    case AugmentKind::kTranslateX:
      return translate_x(picture, op.value, fill);
    case AugmentKind::kTranslateY:
      return translate_y(picture, op.value, fill);
    case AugmentKind::kHue:
      return changed(std::move(picture), adjust_hue, op.value);
  }
  fail_check(__FILE__, __LINE__, "kind", "unknown operation");
}

std::vector<AugmentOp> draw_rand_augment(const RandAugment& options, Draws& draws) {
  std::vector<AugmentOp> ops;
  for (int i = 0; i < options.ops; ++i) {
    const auto kind = static_cast<AugmentKind>(draws.below(kAugmentKinds));
    if (!draws.chance(options.probability)) continue;
    double level = options.magnitude;
    if (options.magnitude_std >= kUniformStd)
      level = draws.uniform(0, level);
    else if (options.magnitude_std > 0)
      level += options.magnitude_std * draws.normal();
    level = std::clamp(level, 0.0, kLevels);
    ops.push_back({kind, augment_value(kind, level, draws.chance(0.5))});
  }
  return ops;
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
