#include "train/apps/plan/dry_step.h"

#include <algorithm>

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "models/late_parameters.h"
#include "train/config/fields.h"
#include "train/trainer/run/sharded_parameters.h"
#include "train/trainer/run/train_step.h"
#include "train/trainer/task/load_model.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

/// Runs the step and records its items and operations.
void run_counted(TrainStep& step, std::int64_t number, double learning_rate, DryStep& result) {
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  result.items = step.begin(number, learning_rate).items;
  result.flops = profiler.model_flops();
  double all_flops = 0;
  for (const ProfileEntry& entry : profiler.entries()) {
    all_flops += entry.flops;
    if (entry.phase == ProfilePhase::kForward) result.forward_flops += entry.flops;
  }
  if (result.flops > 0) result.memory.recomputed = all_flops / result.flops - 1;
}

std::int64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const NamedTensor& each : tensors) bytes += static_cast<std::int64_t>(each.tensor.bytes());
  return bytes;
}

/// Bytes of the tensors that a checkpoint of this step has (Saver).
std::int64_t checkpoint_bytes(Task& task, const AdamW& optimizer, const TrainStep& step) {
  std::int64_t bytes = bytes_of(tensors_of(task.model().parameters())) + bytes_of(optimizer.state());
  if (step.average() != nullptr) bytes += bytes_of(step.average()->state());
  return bytes;
}

/// Linear extrapolation: last + times (last - before).
std::int64_t extended(std::int64_t before, std::int64_t last, std::int64_t times) {
  std::int64_t more = 0, sum = 0;
  if (__builtin_mul_overflow(last - before, times, &more) || __builtin_add_overflow(last, more, &sum)) {
    throw MemoryError(error_message("plan", "train.accumulate", "less than 2^63 bytes of memory",
                                    std::to_string(times) + " more micro-batches"));
  }
  return sum;
}

/// Every number of two plans extrapolated.
MemoryPlan extended(const MemoryPlan& before, const MemoryPlan& last, std::int64_t times) {
  MemoryPlan plan = last;
  const auto extend = [times](std::int64_t from, std::int64_t& to) { to = extended(from, to, times); };
  for (std::size_t i = 0; i < plan.at_peak.size(); ++i) {
    extend(before.stats.by_purpose[i].peak_bytes, plan.stats.by_purpose[i].peak_bytes);
    extend(before.at_peak[i], plan.at_peak[i]);
  }
  extend(before.stats.total.peak_bytes, plan.stats.total.peak_bytes);
  extend(before.evaluation_bytes, plan.evaluation_bytes);
  return plan;
}

/// The one that needs more memory, with the larger of both evaluations.
MemoryPlan worse(const MemoryPlan& a, const MemoryPlan& b) {
  MemoryPlan plan = a.stats.total.peak_bytes >= b.stats.total.peak_bytes ? a : b;
  plan.evaluation_bytes = std::max(a.evaluation_bytes, b.evaluation_bytes);
  return plan;
}

/// The task of one of the processes, as it begins.
std::unique_ptr<Task> make_share(const RunConfig& config, const MakeTask& make_task, Communicator& processes,
                                 std::shared_ptr<ShardedParameters>& sharded) {
  if (!shards_parameters(config, processes)) return make_task(config);
  const LateParameters late;
  std::unique_ptr<Task> task = make_task(config);
  sharded = shard_parameters(task->model(), config, processes);
  sharded->end_filling();
  return task;
}

MemoryPlan plan_step(const RunConfig& asked, const MakeTask& make_task, DryStepAt at,
                     std::int64_t processes) {
  constexpr std::int64_t kFew = 3;
  RunConfig config = asked;
  config.train.accumulate = std::min(asked.train.accumulate, kFew);
  const MemoryPlan few = dry_step(config, make_task, at, processes).memory;
  if (asked.train.accumulate <= kFew) return few;
  // From the second micro-batch on, each adds the same memory: its batch and its loss and metrics.
  config.train.accumulate = kFew - 1;
  return extended(dry_step(config, make_task, at, processes).memory, few, asked.train.accumulate - kFew);
}

}  // namespace

MakeTask synthetic_tasks(const Family& family) {
  return [&family](const RunConfig& asked) {
    const RunConfig run = with_first_heads(asked);
    std::unique_ptr<Task> task = family.make_task(run, family.open_data(run, DataUse::kSynthetic),
                                                  make_initialised_model(family, run));
    if (has_own_teacher(run)) task->set_teacher(make_initialised_model(family, teacher_run(run)), "");
    return task;
  };
}

DryStep dry_step(const RunConfig& asked, const MakeTask& make_task, DryStepAt at, std::int64_t processes) {
  RunConfig config = asked;
  config.cuda_graph = false;  // a captured step allocates the same blocks
  const DryRunScope scope;
  const std::unique_ptr<Communicator> others = dry_processes(static_cast<int>(processes));
  std::shared_ptr<ShardedParameters> sharded;  // outlives the model
  const std::unique_ptr<Task> task = make_share(config, make_task, *others, sharded);
  AdamW optimizer = make_optimizer(task->model(), config, *others, sharded.get());
  TrainStep step(*task, optimizer, config, *others, sharded);
  task->seek(0, {});

  DryStep result;
  constexpr auto kLate = static_cast<std::int64_t>(config::kMaxSteps);  // all of any training is done
  run_counted(step, at == DryStepAt::kStart ? 0 : kLate, config.schedule.peak, result);
  step.finish();
  if (processes > 1) {  // what collectives need is there from the beginning of the second one
    step.begin(at == DryStepAt::kStart ? 1 : kLate, config.schedule.peak);
    step.finish();
  }
  result.unit = task->unit();
  result.sample_sizes = task->sample_sizes();
  result.steps_per_epoch = task->steps_per_epoch();
  if (is_routed(task->model())) result.activated_heads = activated_heads(task->model(), /*training=*/true);
  result.parameters = count_parameters(task->model());
  for (const NamedTensor& frozen : optimizer.frozen()) result.frozen_parameters += frozen.tensor.numel();
  if (!optimizer.shards()->divided()) result.checkpoint_bytes = checkpoint_bytes(*task, optimizer, step);
  static_cast<DryUsage&>(result.memory) = scope.memory()->usage(config.device);
  scope.memory()->reset_peaks();
  step.complete_parameters();
  const std::unique_ptr<WeightsScope> weights = step.evaluated_weights();
  task->evaluate([](const EvaluationProgress&) { return false; }, one_process());
  result.memory.evaluation_bytes = scope.memory()->usage(config.device).stats.total.peak_bytes;
  return result;
}

std::int64_t MemoryPlan::needed_bytes() const {
  return std::max(stats.total.peak_bytes, evaluation_bytes);
}

MemoryPlan plan_memory(const RunConfig& asked, const MakeTask& make_task, std::int64_t processes) {
  const MemoryPlan start = plan_step(asked, make_task, DryStepAt::kStart, processes);
  if (usual_step(asked) == DryStepAt::kStart) return start;
  return worse(start, plan_step(asked, make_task, DryStepAt::kSettled, processes));
}

DryStepAt usual_step(const RunConfig& config) {
  const bool annealed = has_router(config) && config.family->moh()->top_k_anneal_until > 0;
  return annealed ? DryStepAt::kSettled : DryStepAt::kStart;
}

bool has_router(const RunConfig& config) {
  const MohConfig* const moh = config.family->moh();
  return moh != nullptr && moh->router->routes();
}

StepFlops step_flops(const RunConfig& asked, const MakeTask& make_task) {
  RunConfig config = asked;
  config.train.accumulate = 1;  // all micro-batches have the same number of operations
  const StepFlops one = step_flops(config, dry_step(config, make_task, usual_step(config)), make_task);
  return one.times(static_cast<double>(asked.train.accumulate));
}

StepFlops step_flops(const RunConfig& config, const DryStep& step, const MakeTask& make_task) {
  if (!has_router(config)) return {step.flops, step.flops, step.forward_flops, step.forward_flops};
  RunConfig dense = config;
  *dense.family->moh() = {};
  dense.init.distill = {};
  dense.optim.adamw.groups = {};
  const DryStep without = dry_step(dense, make_task);
  return {without.flops, step.flops, without.forward_flops, step.forward_flops};
}

}  // namespace moh
