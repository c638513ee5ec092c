#pragma once

#include <memory>

#include "train/trainer/run/start_run.h"

namespace moh {

/// The model of a run with weights of the checkpoint to resume from, of init.from, or random ones. Replaces a
/// rule for shared heads that needs measurements in `run` by the measured lists. Throws CheckpointError, and
/// ConfigError.
std::unique_ptr<Model> start_model(RunConfig& run, const Family& family,
                                   const std::shared_ptr<const TaskData>& data,
                                   const StoredCheckpoint* resume_from, const RunHost& host);

/// Gives the task a teacher with weights of its own, which are read again when the run is resumed.
void add_teacher(Task& task, const RunConfig& run, const Family& family, const Families& families);

}  // namespace moh
