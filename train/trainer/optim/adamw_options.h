#pragma once

#include <array>
#include <limits>
#include <vector>

#include "ops/optim/adamw.h"
#include "train/trainer/optim/parameter_groups.h"
#include "train/trainer/optim/precision.h"

namespace moh {

struct AdamWOptions {
  UpdateRule rule = UpdateRule::kAdamW;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.95;  ///< of Muon
  double weight_decay = 0.1;
  double clip_grad_norm = 1;  ///< maximum global L2 norm of an update's gradients; 0: no clipping
  Precision gradients = Precision::kFloat32;  ///< of bfloat16 parameters
  bool fused_update = false;                  ///< TrainStep updates within the backward pass (FusedUpdate)
  std::vector<ParameterGroup> groups = {};

  bool operator==(const AdamWOptions&) const = default;
};

/// Above which a step makes no update.
struct UpdateLimits {
  double loss = std::numeric_limits<double>::infinity();  ///< sum of the losses of the micro-batches
  double grad_norm = std::numeric_limits<double>::infinity();

  bool operator==(const UpdateLimits&) const = default;
};

}  // namespace moh
