#pragma once

#include "train/checkpoint/train_state.h"
#include "train/config/run_config.h"
#include "train/optim/adamw.h"

namespace moh {

/// The limits of guard.spike: mean + z standard deviation of the losses, and of the gradient norms, of the
/// last steps that were made. A skipped step is not among them, so that one spike does not let others pass.
/// They are part of the state of a run: a resumed one has the limits of one that was not stopped.
class SpikeGuard {
 public:
  SpikeGuard(const SpikeConfig& config, TrainState& state) : config_(config), state_(state) {}

  bool is_on() const { return config_.loss > 0 || config_.grad_norm > 0; }
  /// Of the next step. Infinite until `window` steps were made.
  UpdateLimits limits() const;
  /// A step has been made.
  void add(double loss, double grad_norm);

 private:
  SpikeConfig config_;
  TrainState& state_;
};

}  // namespace moh
