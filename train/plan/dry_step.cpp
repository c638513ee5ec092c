#include "train/plan/dry_step.h"

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "train/trainer/trainer.h"

namespace moh {

namespace {

/// The step alone; returns its operations.
double run_counted(TrainStep& step, double learning_rate) {
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  step.begin(0, learning_rate);
  return profiler.model_flops();
}

}  // namespace

DryStep dry_step(const RunConfig& asked, const MakeTask& make_task) {
  RunConfig config = asked;
  config.cuda_graph = false;  // the arena of a graph holds the same blocks
  const DryRunScope scope;
  const std::unique_ptr<Task> task = make_task(config);
  AdamW optimizer(task->model().parameters(), adamw_options_of(config.optim));
  TrainStep step(*task, optimizer, config);
  task->seek(0);

  DryStep result;
  result.flops = run_counted(step, config.optim.learning_rate);
  result.activated_heads = step.finish().statistics.activated_heads.value_or(1.0);
  result.parameters = count_parameters(task->model());
  result.memory = scope.memory()->usage(config.device);
  scope.memory()->reset_peaks();
  task->evaluate([] { return false; });
  result.evaluation_bytes = scope.memory()->usage(config.device).stats.total.peak_bytes;
  return result;
}

StepFlops step_flops(const RunConfig& asked, const MakeTask& make_task) {
  RunConfig config = asked;
  config.train.accumulate = 1;  // the others are like the first
  const auto micro_batches = static_cast<double>(asked.train.accumulate);
  StepFlops flops;
  flops.routed = micro_batches * dry_step(config, make_task).flops;
  flops.dense = flops.routed;
  if (config.model.moh.router == RouterChoice::kNone) return flops;
  config.model.moh = {};
  config.model.moh.router = RouterChoice::kNone;
  flops.dense = micro_batches * dry_step(config, make_task).flops;
  return flops;
}

}  // namespace moh
