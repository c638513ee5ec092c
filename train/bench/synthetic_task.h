#pragma once

#include <functional>
#include <memory>

#include "train/config/run_config.h"
#include "train/tasks/task.h"

namespace moh {

/// Makes the task of a run, data included.
using MakeTask = std::function<std::unique_ptr<Task>(const RunConfig&)>;

/// The task of a run on made-up data, of which one batch is held out: for dry runs and measurements.
std::unique_ptr<Task> make_synthetic_task(const RunConfig& config);

}  // namespace moh
