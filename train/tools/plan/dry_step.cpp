#include "train/tools/plan/dry_step.h"

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "train/run/trainer.h"
#include "train/tasks/load_model.h"

namespace moh {

namespace {

/// The step alone: its inputs and operations.
void run_counted(TrainStep& step, double learning_rate, DryStep& result) {
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  result.items = step.begin(0, learning_rate).items;
  result.flops = profiler.model_flops();
}

}  // namespace

MakeTask synthetic_tasks(const Family& family) {
  return [&family](const RunConfig& run) {
    return family.make_task(run, family.open_data(run, DataUse::kSynthetic),
                            make_initialised_model(family, run));
  };
}

DryStep dry_step(const RunConfig& asked, const MakeTask& make_task) {
  RunConfig config = asked;
  config.cuda_graph = false;  // the arena of a graph holds the same blocks
  const DryRunScope scope;
  const std::unique_ptr<Task> task = make_task(config);
  AdamW optimizer(task->model().parameters(), config.optim.adamw);
  TrainStep step(*task, optimizer, config);
  task->seek(0);

  DryStep result;
  run_counted(step, config.schedule.peak, result);
  step.finish();
  result.unit = task->unit();
  for (const auto& [name, size] : task->sample_sizes()) result.sample_sizes.emplace_back(name, size);
  if (is_routed(task->model())) result.activated_heads = activated_heads(task->model(), /*training=*/true);
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
  const StepFlops one = step_flops(config, dry_step(config, make_task), make_task);
  return {micro_batches * one.dense, micro_batches * one.routed};
}

StepFlops step_flops(const RunConfig& config, const DryStep& step, const MakeTask& make_task) {
  RunConfig dense = config;
  MohConfig* moh = dense.family->moh();
  if (moh == nullptr || moh->router == RouterKind::kNone) return {step.flops, step.flops};
  *moh = {};
  return {dry_step(dense, make_task).flops, step.flops};
}

}  // namespace moh
