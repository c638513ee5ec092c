#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "train/base/log/console.h"
#include "train/comm/communicator.h"
#include "train/trainer/run/run_folder.h"
#include "train/trainer/run/stop_signal.h"
#include "train/trainer/run/trainer.h"
#include "train/trainer/task/family.h"

namespace moh {

struct RunConfig;

/// How a run is started, besides its configuration.
struct StartOptions {
  std::string config_file;  ///< of the configuration
  bool resume = false;      ///< resume from the newest checkpoint in output.dir, if there is one
  /// Branch: a new run in output.dir that goes on from this checkpoint of another run (resolve_checkpoint),
  /// as the other would have with the configuration of this one; with `resume`, unless it has one of its own.
  std::filesystem::path resume_from = {};
  bool overwrite = false;      ///< remove the run that is in output.dir
  bool allow_older = false;    ///< when the newest checkpoint is damaged, use the one before
  bool allow_changes = false;  ///< resume although the configuration changes what the steps compute
};

/// The program that runs it. Of several processes, the first one writes to the folder and speaks.
struct RunHost {
  const Families& families;
  RunFolder& folder;
  StopSignal& stop;  ///< deferred once there is something to save
  std::shared_ptr<Console> console;
  Communicator& processes;
  MetricListener listener = {};  ///< of the process that writes
};

/// Starts a run, or resumes it, and trains to its end, or until it is stopped. Nothing of a run that is in
/// output.dir is removed before the new one has its data and its model. Throws ConfigError, DataError,
/// CheckpointError, DeviceError for what does not fit, and what Trainer::run() throws.
TrainOutcome start_run(RunConfig config, const StartOptions& options, const RunHost& host);

}  // namespace moh
