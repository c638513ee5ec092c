#pragma once

#include <memory>

#include "train/trainer/run/sharded_parameters.h"
#include "train/trainer/run/start_run.h"

namespace moh {

/// A model, and what divides its parameters among processes; null: nothing does.
struct StartedModel {
  std::shared_ptr<ShardedParameters> sharded;  // outlives the model
  std::unique_ptr<Model> model;
};

/// A model with its initial weights. Processes that divide its parameters never have all of them in memory;
/// ShardedParameters::end_filling() is due then. Where processes keep whole parameters, and send each other
/// new values of them, these are in memory that collectives may gather them in (ParameterShards::gather()).
StartedModel new_model(const RunConfig& run, const Family& family, Communicator& processes);

/// The model of a run with weights of the checkpoint to resume from, of init.from, or random ones. Replaces a
/// rule for shared heads that needs measurements in `run` by the measured lists. Throws CheckpointError, and
/// ConfigError. A collective where parameters are divided, as new_model().
StartedModel start_model(RunConfig& run, const Family& family, const std::shared_ptr<const TaskData>& data,
                         const StoredCheckpoint* resume_from, const RunHost& host);

/// Gives the task a teacher with weights of its own, which are read again when the run is resumed.
void add_teacher(Task& task, const RunConfig& run, const Family& family, const Families& families);

}  // namespace moh
