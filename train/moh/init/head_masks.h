#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/moh/init/head_importance.h"

namespace moh {

/// How masks are trained.
struct MaskTraining {
  std::int64_t steps = 200;
  double learning_rate = 0.1;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> targets;  ///< heads that shall stay on, by layer
};

/// A step of the training, for people.
struct MaskStep {
  std::int64_t step = 0;            ///< from 1
  double loss = 0;                  ///< of the batch, a mean over its targets
  double heads_on = 0, target = 0;  ///< per layer on average: expected, and aimed at in this step
};

/// Trains a hard-concrete mask per head of a dense model, whose own weights stay as they are, and returns the
/// masks' log_alpha: the larger, the more the head is worth. Heads begin on. Each step draws one mask per
/// head for a batch of its own and moves log_alpha by Adam along the gradient of the loss with those heads.
/// The L0 penalty is the one that keeps, in each layer, the expected number of heads that are on, sum_h P(z_h
/// > 0), at what the step aims at: nearly all heads in the beginning, the layer's target from half of the
/// steps on, linear between. It moves all log_alpha of the layer by the same amount, which is found by
/// bisection. A layer of which all or no heads stay has no masks: its scores are 0. Everything is a function
/// of the model, the batches and the seed.
HeadScores train_head_masks(const Model& model, const Calibration& calibration, const MaskTraining& training,
                            const std::function<void(const MaskStep&)>& on_step);

}  // namespace moh
