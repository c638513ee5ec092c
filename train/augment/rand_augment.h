#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/augment/affine.h"
#include "train/augment/draws.h"

namespace moh {

/// The operations of RandAugment (Cubuk et al. 2019, arXiv 1909.13719), as timm has them, and then those of
/// colour jitter alone.
enum class AugmentKind {
  kAutoContrast,
  kEqualize,
  kInvert,
  kRotate,
  kPosterize,
  kSolarize,
  kSolarizeAdd,
  kColor,
  kContrast,
  kBrightness,
  kSharpness,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kHue,
};
/// The number of RandAugment's operations.
inline constexpr int kAugmentKinds = 15;

/// An operation and its argument: degrees, bits, threshold, addend, factor of a blend, slope, share of the
/// side, or of the colour wheel. Those without an argument ignore it.
struct AugmentOp {
  AugmentKind kind;
  double value = 0;
};

/// Throws nothing; `fill` is for what lies outside of the picture.
Picture apply(const AugmentOp& op, Picture picture, Rgb fill);

/// "rand-m9-mstd0.5-inc1", as timm writes it.
struct RandAugment {
  double magnitude = 9;        ///< m: of 10
  int ops = 2;                 ///< n: operations of each picture
  double magnitude_std = 0.5;  ///< mstd: of the normal magnitude; 0: always `magnitude`
  double probability = 0.5;    ///< p: of each operation to be applied

  /// Throws ValueError for a text of another form, and for one without inc1: without it, timm's operations
  /// have other arguments.
  static RandAugment parse(std::string_view text);
};

/// The argument of an operation at a level from [0, 10]; `negative` turns signs, and factors of blends from
/// above 1 to below.
double augment_value(AugmentKind kind, double level, bool negative);

/// Draws operations, uniformly with replacement, and their arguments. Those that are not applied are left
/// out.
std::vector<AugmentOp> draw_rand_augment(const RandAugment& options, Draws& draws);

/// Factors of brightness, contrast and saturation are uniform in 1 - x ... 1 + x, not below 0; hues turn by
/// -x ... x of the colour wheel, x at most 0.5 (torchvision's ColorJitter).
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

/// Draws the changes whose option is not 0, in random order.
std::vector<AugmentOp> draw_color_jitter(const ColorJitter& options, Draws& draws);

}  // namespace moh
