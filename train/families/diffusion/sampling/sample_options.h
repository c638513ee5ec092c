#pragma once

#include <cstdint>
#include <string>

#include "models/diffusion/reverse_step.h"

namespace moh {

/// How pictures are drawn from a model.
struct SampleOptions {
  std::string steps = "250";  ///< as steps_of() reads them
  ReverseOptions reverse;
  double guidance = 1.5;             ///< scale of classifier-free guidance; 1: none
  std::int64_t guided_channels = 3;  ///< the first ones; as many as the model has: all
  bool labels = true;                ///< false: no picture has one, for a model that was trained without
  std::uint64_t seed = 0;
};

}  // namespace moh
