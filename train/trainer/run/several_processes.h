#pragma once

#include <memory>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/shared_facts.h"
#include "train/trainer/task/family.h"
#include "train/trainer/task/load_model.h"

namespace moh {

struct RunConfig;

/// Before a computation that several processes share: gives each its threads, and checks that all are of one
/// program and were started alike, with the same configuration and `options`, those of the command line.
/// Throws ConfigError.
void begin_together(const RunConfig& config, Communicator& processes, const SharedFacts& options = {});

/// Compares facts of all processes, as require_same_facts(), and logs what it notes.
void require_same(const SharedFacts& facts, Communicator& processes);

/// Throws CheckpointError in all processes unless all have loaded the same weights.
void require_same_model(const LoadedModel& loaded, Communicator& processes);

/// The collectives between the GPUs of several processes; null where there are none.
std::unique_ptr<DeviceCollectives> open_gpu_collectives(const RunConfig& config, Communicator& processes);

/// Gives all processes the first one's values of the tensors, which are on config.device.
void share_values(const std::vector<Tensor>& tensors, const RunConfig& config, Communicator& processes);

/// Opens the data, on each machine in one process first: what it puts into the user's cache, the others read.
/// Throws DataError in all processes unless all have read the same (TaskData::contents).
std::shared_ptr<const TaskData> open_data_in_turn(const RunConfig& config, const Family& family, DataUse use,
                                                  Communicator& processes);

}  // namespace moh
