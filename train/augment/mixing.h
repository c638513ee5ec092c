#pragma once

#include <cstdint>
#include <span>

#include "train/augment/draws.h"
#include "train/base/formats/pictures/picture.h"

namespace moh {

/// Mixup (Zhang et al. 2017, arXiv 1710.09412) and CutMix (Yun et al. 2019, arXiv 1905.04899), one of the two
/// for each group of pictures, as timm's Mixup with mode `batch` and corrected lambda.
struct Mixing {
  double probability = 1;     ///< of a group to be mixed at all
  double cutmix_share = 0.5;  ///< of the mixed groups, where both are on
  double mixup_alpha = 0.8;   ///< of the Beta distribution of lambda; 0: no Mixup
  double cutmix_alpha = 1;    ///< 0: no CutMix
};

/// How the pictures of a group are mixed with those of the group in reverse order: lambda is the share of a
/// picture itself.
struct Mix {
  double lambda = 1;
  /// CutMix: the box that comes from the other picture; empty with Mixup.
  PictureBox box;
};

/// Mix of pictures of one size. Nothing is mixed with lambda = 1.
Mix draw_mix(const Mixing& options, PictureSize size, Draws& draws);

/// The CutMix of a drawn lambda with the box's middle at (x, y): the box is sqrt(1 - lambda) of each side,
/// cut off at the borders, and lambda what remains.
Mix cutmix_at(double lambda, int x, int y, PictureSize size);

/// A number of the distribution Beta(alpha, alpha), alpha > 0.
double draw_beta(double alpha, Draws& draws);

/// Mixes a group in place: pictures [count, size.height, size.width, 3].
void mix_pictures(std::span<float> pictures, std::int64_t count, PictureSize size, const Mix& mix);

/// Targets [labels, classes] of a mixed group, in float32: lambda of each picture's own class and 1 - lambda
/// of the other's, where a class is smoothing / classes everywhere, and 1 - smoothing more at its own place.
/// Throws ValueError for a label that is not one of the classes: it would be written outside of its row.
void soft_targets(std::span<const std::int64_t> labels, std::int64_t classes, double smoothing, double lambda,
                  std::span<float> to);

}  // namespace moh
