#pragma once

#include <vector>

#include "models/llm/llama.h"
#include "train/init/calibration_batches.h"

namespace moh {

/// First weights for learned routers, under the names of the parameters.
struct RouterWeights {
  struct Entry {
    Variable parameter;
    Tensor value;
  };
  std::vector<Entry> entries;

  void apply() const;
};

/// All zero: every gate is 1, and the routed heads are the first K, for every token.
RouterWeights zero_start(const std::vector<NamedParameter>& routers);

/// Normal numbers, as Llama::initialise draws them.
RouterWeights random_start(const std::vector<NamedParameter>& routers, double std, std::uint64_t seed);

/// The maps of types (wg_0) and of shared heads (wg_1) zero, so that the gates of shared heads are 1. The map
/// of the routed heads (wg) predicts from the layer's input x, by ridge least squares over the calibration
/// batches, how much each head adds, ln ||H^i W_O^i|| less its mean over the layer's routed heads, with the
/// weights as they are and every head on. It is scaled so that the logits have the standard deviation
/// `spread` over tokens and heads: what is dropped is what adds least, as far as x tells, and the gates of
/// what stays differ from 1 by about `spread`.
RouterWeights calibrated_start(const Llama& model, const std::vector<NamedParameter>& routers,
                               const CalibrationBatches& batches, double ridge, double spread);

}  // namespace moh
