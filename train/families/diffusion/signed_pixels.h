#pragma once

#include "train/augment/normalize.h"

namespace moh {

/// The values of pixels as a diffusion model and an autoencoder see them: -1 to 1.
constexpr ChannelStatistics kSignedPixels{.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};

}  // namespace moh
