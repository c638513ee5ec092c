#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/dry_run.h"
#include "train/config/run_config.h"
#include "train/tasks/family.h"

namespace moh {

/// Makes the task of a run, data included.
using MakeTask = std::function<std::unique_ptr<Task>(const RunConfig&)>;

/// A family's tasks on made-up data.
MakeTask synthetic_tasks(const Family& family);

/// What a training step and an evaluation behind it took in a dry run (core/dry_run.h).
struct DryStep {
  DryUsage memory;                    ///< of config.device: model, optimiser, data and step
  std::int64_t evaluation_bytes = 0;  ///< the total's peak while held-out data is evaluated, gradients kept
  double flops = 0;                   ///< model FLOPs of the step (Profiler::model_flops)
  std::int64_t parameters = 0;
  std::int64_t items = 0;  ///< inputs of the step, in the task's unit
  Unit unit;
  std::vector<std::pair<std::string, std::int64_t>> sample_sizes;  ///< Task::sample_sizes()
  double activated_heads = 1;                                      ///< share of heads that were computed
};

/// Runs one step, and the evaluation, of the run that `config` describes, with the real model, optimiser and
/// TrainStep. `make_task` is called inside the dry run. Throws as training does, MemoryError for sizes that
/// no device could have.
DryStep dry_step(const RunConfig& config, const MakeTask& make_task);

/// Model FLOPs of a step: forward and backward pass of all its micro-batches.
struct StepFlops {
  double dense = 0;   ///< of the same model without routers, all heads on
  double routed = 0;  ///< as configured
};
StepFlops step_flops(const RunConfig& config, const MakeTask& make_task);
/// The same where `step` is the dry step of `config`.
StepFlops step_flops(const RunConfig& config, const DryStep& step, const MakeTask& make_task);

}  // namespace moh
