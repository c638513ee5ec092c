#pragma once

#include <cstdint>

#include "train/config/run_config.h"
#include "train/optim/adamw.h"
#include "train/tasks/task.h"

namespace moh {

/// What one step came to.
struct StepReport {
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  bool skipped = false;  ///< the loss or the gradient was not finite, so the weights are as they were
  StepStatistics statistics;
  double seconds = 0;  ///< of the host's clock
};

/// One step of training: `config.train.accumulate` micro-batches forward and backward, clipping, AdamW.
/// `step` is the number of steps before this one; random numbers are a function of it and of config.seed. The
/// Trainer and `moh bench step` both call this, so that what is measured is what trains. Its parts are
/// phases (autograd/profile.h): forward, from the batches to the losses; backward; optimizer, which is
/// gradient norm, clipping and update. In none are waiting for data, dropping old gradients, and statistics.
StepReport train_step(Task& task, AdamW& optimizer, const RunConfig& config, std::int64_t step,
                      double learning_rate);

}  // namespace moh
