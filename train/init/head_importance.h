#pragma once

#include <functional>
#include <vector>

#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "train/init/calibration_batches.h"

namespace moh {

/// A number per head, layer by layer.
using HeadScores = std::vector<std::vector<double>>;

/// What each head adds to the residual stream: ||H^i W_O^i||_2 for each token, [B T, H] in float64 on the
/// CPU.
Tensor contribution_norms(const AttentionTrace& trace);

/// The mean of contribution_norms over the tokens of the calibration batches, with every head on.
HeadScores mean_output_norms(const Llama& model, const CalibrationBatches& batches);

/// By how much the loss (nats per token of the calibration batches) grows when a head alone is off, all
/// others being on: a forward pass over the batches for each head. `on_layer` is called after each layer.
HeadScores loss_increases(const Llama& model, const CalibrationBatches& batches,
                          const std::function<void(std::int64_t layer)>& on_layer);

}  // namespace moh
