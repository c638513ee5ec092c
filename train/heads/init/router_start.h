#pragma once

#include <vector>

#include "train/trainer/task/calibration.h"

namespace moh {

/// Initial values of the parameters of learned routers.
struct RouterWeights {
  struct Entry {
    Variable parameter;
    Tensor value;
  };
  std::vector<Entry> entries;

  void apply() const;
};

/// All zero: every gate is 1, and each token selects the first K routed heads.
RouterWeights zero_start(const std::vector<NamedParameter>& routers);

/// Normal with standard deviation `std`. With Model::init_std() and the run's seed these are the values of
/// Model::initialise.
RouterWeights random_start(const std::vector<NamedParameter>& routers, double std, std::uint64_t seed);

struct CalibratedStart {
  /// Penalty of the ridge regression, relative to the mean square of the inputs: small, so that it decides
  /// only where the batches do not.
  double ridge = 1e-3;
  /// Standard deviation of the logits. Nearer to the dense model the first steps of Adam write over the order
  /// of the heads; further away more is lost at the start (measured: docs/benchmarks/continue_tuning.md).
  double spread = 0.1;
};

/// wg_0 (weighs shared against routed heads) and wg_1 (shared heads) are zero, so that the gates of shared
/// heads are 1. wg (routed heads) is fitted by ridge regression over the calibration batches, with every head
/// active: from the layer's input x it predicts ln ||H^i W_O^i||_2 minus the mean of that over the layer's
/// routed heads. wg is then scaled so that the logits have standard deviation options.spread over tokens and
/// heads. So each token drops the heads that, as far as x predicts it, contribute least, and the gates of
/// those that it keeps differ from 1 by about as much.
RouterWeights calibrated_start(const Model& model, const std::vector<NamedParameter>& routers,
                               const Calibration& calibration, const CalibratedStart& options = {});

}  // namespace moh
