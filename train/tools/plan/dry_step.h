#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dry_run.h"
#include "train/config/run_config.h"
#include "train/tasks/family.h"

namespace moh {

/// Makes the task of a run, data included.
using MakeTask = std::function<std::unique_ptr<Task>(const RunConfig&)>;

/// A family's tasks on made-up data.
MakeTask synthetic_tasks(const Family& family);

/// What Task::sample_sizes() says.
using SampleSizes = std::vector<std::pair<std::string_view, std::int64_t>>;

/// What a step of training takes from one device: `stats.peak_bytes` by purpose and in all, as `moh bench
/// step` measures them, and what the total's peak is made of.
struct MemoryPlan : DryUsage {
  std::int64_t evaluation_bytes = 0;  ///< the total's peak while held-out data is evaluated, gradients kept

  /// What a device has to have.
  std::int64_t needed_bytes() const;
};

/// What a training step and an evaluation after it took in a dry run (core/dry_run.h).
struct DryStep {
  MemoryPlan memory;  ///< of config.device: model, optimiser, data and step
  double flops = 0;   ///< model FLOPs of the step (Profiler::model_flops)
  std::int64_t parameters = 0;
  std::int64_t items = 0;  ///< inputs of the step, in `unit`
  Unit unit;
  SampleSizes sample_sizes;
  double activated_heads = 1;  ///< share of heads that were computed
};

/// Runs one step, and the evaluation, of the run that `config` describes, with the real model, optimiser and
/// TrainStep. `make_task` is called inside the dry run. Throws as training does, MemoryError for sizes that
/// no device could have.
DryStep dry_step(const RunConfig& config, const MakeTask& make_task);

/// The memory of dry_step(), of many micro-batches from a few: nothing is computed and no memory of that size
/// is taken, so models of any size can be planned, for a GPU also without one. What routers select is not
/// known beforehand; it is taken as balanced.
///
/// In: parameters; gradients, float32; the two moments of AdamW, and masters of bfloat16 parameters, float32;
/// activations; workspace of kernels for num_threads() threads and this machine's instruction set; batches.
/// Not in: the program and its libraries; what an allocator loses between blocks; on a GPU the context, small
/// tables of kernels and cuDNN's workspace. Throws as dry_step.
MemoryPlan plan_memory(const RunConfig& config, const MakeTask& make_task);

/// Whether routers choose among the heads of the run's model.
bool has_router(const RunConfig& config);

/// Model FLOPs of a step: forward and backward pass of all its micro-batches.
struct StepFlops {
  double dense = 0;   ///< of the same model without routers, all heads on
  double routed = 0;  ///< as configured
};
StepFlops step_flops(const RunConfig& config, const MakeTask& make_task);
/// The same where `step` is the dry step of `config`.
StepFlops step_flops(const RunConfig& config, const DryStep& step, const MakeTask& make_task);

}  // namespace moh
