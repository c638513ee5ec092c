#pragma once

#include <vector>

#include "train/tasks/calibration.h"

namespace moh {

/// First weights for the parameters of learned routers.
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

/// Normal numbers of deviation `std`: with Model::init_std() and the run's seed, those of Model::initialise.
RouterWeights random_start(const std::vector<NamedParameter>& routers, double std, std::uint64_t seed);

/// The maps of types (wg_0) and of shared heads (wg_1) zero, so that the gates of shared heads are 1. The map
/// of the routed heads (wg) predicts from the layer's input x, by ridge least squares over the calibration
/// batches, how much each head adds, ln ||H^i W_O^i|| less its mean over the layer's routed heads, with the
/// weights as they are and every head on. It is scaled so that the logits have the standard deviation
/// `spread` over tokens and heads: what is dropped is what adds least, as far as x tells, and the gates of
/// what stays differ from 1 by about `spread`.
RouterWeights calibrated_start(const Model& model, const std::vector<NamedParameter>& routers,
                               const Calibration& calibration, double ridge, double spread);

}  // namespace moh
