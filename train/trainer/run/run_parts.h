#pragma once

#include <memory>
#include <string>

#include "train/base/log/console.h"
#include "train/comm/communicator.h"
#include "train/trainer/run/metrics_writer.h"
#include "train/trainer/run/run_folder.h"
#include "train/trainer/run/stop_signal.h"
#include "train/trainer/task/task.h"
#include "train/weights/checkpoint/checkpoint_store.h"

namespace moh {

class ShardedParameters;
struct RunConfig;

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
  std::shared_ptr<ShardedParameters> sharded = nullptr;  ///< null: each process has all parameters
  MetricListener listener = {};
};

}  // namespace moh
