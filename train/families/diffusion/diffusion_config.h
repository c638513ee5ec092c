#pragma once

#include "models/diffusion/flow_path.h"
#include "models/diffusion/objective.h"

namespace moh {

/// How a run with diffusion trains: the section `diffusion`.
struct DiffusionConfig {
  DiffusionObjective objective = DiffusionObjective::kNoise;
  FlowPath path = FlowPath::kLinear;  ///< of a flow, as are the times
  TimeSampling time_sampling = TimeSampling::kUniform;
  double time_mean = 0, time_std = 1;  ///< of the normal numbers whose logistic function is a time
  double label_dropout = 0.1;          ///< share of samples without a label, for guidance
  double flip = 0.5;
};

}  // namespace moh
