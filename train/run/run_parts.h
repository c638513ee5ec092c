#pragma once

#include <memory>
#include <string>

#include "train/checkpoint/checkpoint_store.h"
#include "train/comm/communicator.h"
#include "train/config/run_config.h"
#include "train/log/console.h"
#include "train/run/run_folder.h"
#include "train/run/stop_signal.h"
#include "train/tasks/task.h"

namespace moh {

/// A run that has been set up, for those who carry it out. Of several processes, the first writes the files:
/// the others need no open folder and no checkpoints.
struct RunParts {
  const RunConfig& config;  ///< with the micro-batches of per_rank_config()
  std::string config_yaml;  ///< the whole run's, for its checkpoints
  Task& task;
  const RunFolder& folder;
  CheckpointStore* checkpoints;  ///< in `folder`
  const StopSignal& stop;
  std::shared_ptr<Console> console;
  Communicator& processes = one_process();
};

}  // namespace moh
