#pragma once

#include <cstdint>

#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/weight_average.h"
#include "train/trainer/task/task.h"
#include "train/weights/checkpoint/stored_checkpoint.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

/// The state at the start of a run: that of the checkpoint to resume from, or the initial one. Throws
/// CheckpointError if the checkpoint's task was another (Task::identity).
TrainState first_state(std::int64_t seed, const Task& task, const StoredCheckpoint* resume_from);

/// Loads the state of the trained parameters. With other optim.groups than those of the checkpoint, which
/// --allow-changes lets pass, state of parameters that are frozen now is dropped; those that were frozen have
/// none to go on with. Throws CheckpointError.
void load_optimizer_state(const AdamW& optimizer, const StoredCheckpoint& checkpoint);

/// Loads the moving average of `optimizer`'s weights. Throws CheckpointError.
void load_average(const WeightAverage& average, const AdamW& optimizer, const StoredCheckpoint& checkpoint);

}  // namespace moh
