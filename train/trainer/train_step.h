#pragma once

#include <cstdint>

#include "train/config/run_config.h"
#include "train/optim/adamw.h"
#include "train/tasks/task.h"

namespace moh {

/// Where the time of a step went, in seconds.
struct StepTimes {
  double forward = 0;    ///< from the batches to the losses, all micro-batches together
  double backward = 0;   ///< likewise
  double optimizer = 0;  ///< gradient norm, clipping and update
  double total = 0;      ///< these and the rest: waiting for data, dropping old gradients, statistics
};

/// What one step came to.
struct StepReport {
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  bool skipped = false;  ///< the loss or the gradient was not finite, so the weights are as they were
  StepStatistics statistics;
  StepTimes seconds;
};

/// One step of training: `config.train.accumulate` micro-batches forward and backward, clipping, AdamW.
/// `step` is the number of steps before this one; random numbers are a function of it and of config.seed. The
/// Trainer and `moh bench step` both call this, so that what is measured is what trains.
StepReport train_step(Task& task, AdamW& optimizer, const RunConfig& config, std::int64_t step,
                      double learning_rate);

}  // namespace moh
