#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/moh/init/head_importance.h"

namespace moh {

struct MaskTraining {
  std::int64_t steps = 200;
  double learning_rate = 0.1;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> targets;  ///< number of heads to keep, by layer
};

/// Progress of the training after a step.
struct MaskStep {
  std::int64_t step = 0;            ///< from 1
  double loss = 0;                  ///< averaged over the targets of the step's batch
  double heads_on = 0, target = 0;  ///< expected number of unmasked heads and this step's goal, per layer
};

/// Trains a hard-concrete mask (ops/moh/hard_concrete.h) per head of a dense model whose weights are frozen,
/// and returns the masks' log_alpha: larger means more important. All masks start open (P(z > 0) = 0.99).
/// Each step samples one mask per head, computes the loss of the next batch with head outputs multiplied by
/// the masks, and takes an Adam step on log_alpha. Instead of an L0 penalty with a tuned weight, a constraint
/// fixes the expected number of unmasked heads of each layer, sum_h P(z_h > 0), at the step's goal: nearly
/// all heads at first, the layer's target from half of the steps on, linear in between. It is enforced by
/// adding the same amount, found by bisection, to all log_alpha of the layer. A layer that keeps all or none
/// of its heads has no masks, and its scores are 0. Deterministic given the model, the batches and the seed.
HeadScores train_head_masks(const Model& model, const Calibration& calibration, const MaskTraining& training,
                            const std::function<void(const MaskStep&)>& on_step);

}  // namespace moh
