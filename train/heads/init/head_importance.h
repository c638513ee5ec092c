#pragma once

#include <functional>
#include <vector>

#include "models/layers/attention_observer.h"
#include "train/trainer/task/calibration.h"

namespace moh {

/// A score per head, [layer][head].
using HeadScores = std::vector<std::vector<double>>;

/// Zeros for every head of a model's attention layers.
HeadScores no_scores(const Model& model);

/// The L2 norm of what each head adds to the residual stream, ||H^i W_O^i||_2 for each token: [B T, H] in
/// float64 on the CPU. With `unit_heads`, of what so many heads in succession add together, [B T, H /
/// unit_heads].
Tensor contribution_norms(const AttentionTrace& trace, std::int64_t unit_heads = 1);

/// The mean of contribution_norms over the tokens of the calibration batches, with every head active; with
/// kGroups, of the heads of each KV head together.
HeadScores mean_output_norms(const Model& model, const Calibration& calibration,
                             RoutingKey rule = routings::kHeads);

/// The increase of the loss (averaged over the targets of the calibration batches) when one head is masked
/// and all others are active. Takes a forward pass over the batches for each head. `on_layer` is called after
/// each layer.
HeadScores loss_increases(const Model& model, const Calibration& calibration,
                          const std::function<void(std::int64_t layer)>& on_layer);

}  // namespace moh
