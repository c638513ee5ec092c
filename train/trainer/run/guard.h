#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/trainer/config/run_config.h"
#include "train/trainer/optim/adamw.h"
#include "train/trainer/run/train_step.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

/// A step that made no update.
struct SkippedStep {
  std::string_view event;  ///< in metrics.jsonl: "spike", "non_finite"
  std::string message;
  bool ends_run = false;
};

/// The section `guard`: limits beyond which a step makes no update, and for how many steps in a row a run
/// bears that. The limits of guard.spike are mean + z standard deviations of the losses, and of the gradient
/// norms, of the last steps that were made. A skipped step is not among them, so that one spike does not let
/// others pass. All of it is part of the state of a run: a resumed one goes on as one that was not stopped.
class Guard {
 public:
  /// `fused_update`: parameters are updated before the gradients of all are known. `state` outlives this.
  Guard(const GuardConfig& config, bool fused_update, TrainState& state)
      : config_(config), fused_update_(fused_update), state_(state) {}

  bool has_limits() const { return config_.spike.loss > 0 || config_.spike.grad_norm > 0; }
  /// The limits of the next step. Infinite until guard.spike.window steps were made.
  UpdateLimits limits() const;
  /// Takes note of a finished step, number state.step. Returns what there is to say of a skipped one.
  std::optional<SkippedStep> check(const StepReport& report);

 private:
  /// The row of the table of messages.
  std::size_t fault_of(const StepReport& report) const;

  GuardConfig config_;
  bool fused_update_;
  TrainState& state_;
};

}  // namespace moh
