#pragma once

#include "train/trainer/config/load_run_config.h"
#include "train/trainer/run/start_run.h"

namespace moh {

/// The configuration of a run that is started with `start`. A resumed run has the model of its own
/// checkpoint: that of init.from may no longer exist, and shared heads measured on it are in the run's
/// checkpoint. Logs the file's notes. Throws ConfigError, CheckpointError.
RunConfig training_config(RunFile file, const StartOptions& start, const Families& families);

}  // namespace moh
