#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dry_run.h"
#include "train/trainer/task/family.h"

namespace moh {

struct RunConfig;

/// Builds the task of a run, data included.
using MakeTask = std::function<std::unique_ptr<Task>(const RunConfig&)>;

/// Tasks of a family on synthetic data, with_first_heads() where shared heads are to be measured.
MakeTask synthetic_tasks(const Family& family);

/// The result of Task::sample_sizes().
using SampleSizes = std::vector<std::pair<std::string_view, std::int64_t>>;

/// Memory that training takes on one device: peaks by purpose and in total (`stats`), as `moh bench step`
/// measures them in a step, and the memory by purpose at the moment of the total's peak (`at_peak`).
struct MemoryPlan : DryUsage {
  std::int64_t evaluation_bytes = 0;  ///< peak during evaluation, which keeps the gradients allocated
  double recomputed = 0;  ///< operations that the backward pass computes again, over the step's model FLOPs

  /// The memory that a device needs: the larger one of both peaks.
  std::int64_t needed_bytes() const;
};

/// The result of a training step and a subsequent evaluation in a dry run (core/dry_run.h).
struct DryStep {
  MemoryPlan memory;         ///< on config.device, for model, optimiser, data and step
  double flops = 0;          ///< model FLOPs of the step (Profiler::model_flops)
  double forward_flops = 0;  ///< thereof in the forward passes, a teacher's among them
  std::int64_t parameters = 0, frozen_parameters = 0;
  std::int64_t checkpoint_bytes =
      0;                             ///< tensors of a checkpoint: parameters, optimiser state, moving average
  std::int64_t items = 0;            ///< of the step, in `unit`
  std::int64_t steps_per_epoch = 0;  ///< Task::steps_per_epoch()
  Unit unit;
  SampleSizes sample_sizes;
  double activated_heads = 1;  ///< share of heads that are computed
};

/// The step that is meant in a run with an annealed K (MohConfig::top_k_anneal_until).
enum class DryStepAt {
  kStart,   ///< the first, with all heads active
  kSettled  ///< any after the stretch
};

/// Dry run of one step and one evaluation of the run that `config` describes, through the same model,
/// optimiser and TrainStep as in training. `make_task` is called inside the dry run. The optimiser's state is
/// that of one of `processes` if comm.zero divides it. Throws as training does, and MemoryError for sizes
/// beyond any address space.
DryStep dry_step(const RunConfig& config, const MakeTask& make_task, DryStepAt at = DryStepAt::kStart,
                 std::int64_t processes = 1);

/// The memory of the step of the run that takes most (DryStepAt); steps of many micro-batches are
/// extrapolated from a few. Nothing is computed and the memory is not allocated, so models of any size can be
/// planned, GPU runs also without a GPU. Routers are assumed to select heads evenly.
///
/// Included: parameters; gradients, float32; the two moments of AdamW, and master copies of bfloat16
/// parameters, float32; activations; workspace of kernels for num_threads() threads and this machine's
/// instruction set; batches. Not included: the program and its libraries; fragmentation in the allocator; on
/// a GPU the CUDA context, small tables of kernels and cuDNN's workspace. Throws as dry_step.
MemoryPlan plan_memory(const RunConfig& config, const MakeTask& make_task, std::int64_t processes = 1);

/// The step whose operations are those of most of the run.
DryStepAt usual_step(const RunConfig& config);

/// Whether the run's model has routers.
bool has_router(const RunConfig& config);

/// Model FLOPs of a step: forward and backward passes of all its micro-batches.
struct StepFlops {
  double dense = 0;                              ///< of the same model without routers, with all heads active
  double routed = 0;                             ///< of the model as configured
  double dense_forward = 0, routed_forward = 0;  ///< of the forward passes alone

  /// Each number times `factor`.
  StepFlops times(double factor) const {
    return {factor * dense, factor * routed, factor * dense_forward, factor * routed_forward};
  }
};
StepFlops step_flops(const RunConfig& config, const MakeTask& make_task);
/// step_flops() with `step`, the result of dry_step(config, make_task).
StepFlops step_flops(const RunConfig& config, const DryStep& step, const MakeTask& make_task);

}  // namespace moh
