#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "models/diffusion/flow_path.h"
#include "models/diffusion/objective.h"
#include "models/diffusion/reverse_step.h"

namespace moh {

/// How pictures are drawn from a model.
struct SampleOptions {
  DiffusionObjective objective = DiffusionObjective::kNoise;
  FlowPath path = FlowPath::kLinear;  ///< of a flow, as is `diffusion`
  FlowDiffusion diffusion = FlowDiffusion::kSigma;
  std::string steps = "250";  ///< as steps_of() reads them, of a flow flow_steps()
  ReverseOptions reverse;
  double guidance = 1.5;             ///< scale of classifier-free guidance; 1: none
  std::int64_t guided_channels = 3;  ///< the first ones; as many as the model has: all
  /// Guidance applies where the ratio of noise to signal is above the first and at most the second number
  /// (Kynkaanniemi et al. 2024, arXiv 2404.07724); 0 as the first includes 0, where a flow ends.
  std::array<double, 2> guided_levels{0, std::numeric_limits<double>::infinity()};
  bool labels = true;  ///< false: no picture has one, for a model that was trained without
  std::uint64_t seed = 0;
};

/// The steps of the options, of the process that the model was trained for. Throws ValueError.
std::int64_t number_of_steps(const SampleOptions& options);
/// How often a picture's way takes the model, with guidance in all of it. Throws ValueError.
std::int64_t model_passes(const SampleOptions& options);

}  // namespace moh
