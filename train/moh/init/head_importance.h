#pragma once

#include <functional>
#include <vector>

#include "models/layers/attention_observer.h"
#include "train/tasks/calibration.h"

namespace moh {

/// A number per head, layer by layer.
using HeadScores = std::vector<std::vector<double>>;

/// Zeros for the attention heads of a model.
HeadScores no_scores(const Model& model);

/// What each head adds to the residual stream: ||H^i W_O^i||_2 for each token, [B T, H] in float64 on the
/// CPU.
Tensor contribution_norms(const AttentionTrace& trace);

/// The mean of contribution_norms over the tokens of the calibration batches, with every head on.
HeadScores mean_output_norms(const Model& model, const Calibration& calibration);

/// By how much the loss (a mean over the targets of the calibration batches) grows when a head alone is off,
/// all others being on: a forward pass over the batches for each head. `on_layer` is called after each layer.
HeadScores loss_increases(const Model& model, const Calibration& calibration,
                          const std::function<void(std::int64_t layer)>& on_layer);

}  // namespace moh
