#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/allocator.h"
#include "core/error.h"
#include "tests/support/language_runs.h"
#include "tests/support/sharded_values.h"
#include "train/apps/plan/dry_step.h"
#include "train/families/families.h"
#include "train/trainer/run/train_step.h"

namespace moh::test {

/// The run with one micro-batch for each process, and without clipping.
inline RunConfig fusible(RunConfig config, std::int64_t processes = 1) {
  config.optim.adamw.clip_grad_norm = 0;
  config.train.accumulate = processes;
  return config;
}

/// A small language model with routed heads and dropout.
inline RunConfig routed(RouterKey router) {
  RunConfig config = fusible(small_language_run());
  model_of(config).moh.router = router;
  model_of(config).moh.num_shared = 1;
  model_of(config).moh.top_k = 1;
  model_of(config).dropout = 0.1;
  return config;
}

struct Steps {
  std::vector<double> numbers;  // loss and norm of each step
  std::vector<Tensor> state;    // weights, and this process's moments, master copies and average
  std::int64_t peak_gradients = 0;
};

/// Four steps of this process, updated within the backward pass or after it.
inline Steps four_steps(RunConfig config, bool fused, Communicator& processes = one_process()) {
  config.optim.adamw.fused_update = fused;
  config.train = per_rank_config(config, processes.size());
  const std::unique_ptr<Task> task = synthetic_tasks(families().of(config))(config);
  const std::shared_ptr<ShardedParameters> sharded = shard_values(task->model(), config, processes);
  AdamW optimizer = make_optimizer(task->model(), config, processes, sharded.get());
  TrainStep step(*task, optimizer, config, processes, sharded);
  task->seek(0, step.part());
  CpuAllocator::instance().reset_peaks();
  const auto gradients = [] { return CpuAllocator::instance().stats().of(MemoryPurpose::kGradient); };
  const std::int64_t before = gradients().current_bytes;
  Steps steps;
  for (int i = 0; i < 4; ++i) {
    step.begin(i, 0.01 / (1 + i));
    const StepReport report = step.finish();
    if (report.skipped) throw ValueError("a step is skipped");
    steps.numbers.insert(steps.numbers.end(), {report.loss, report.gradient_norm});
  }
  steps.peak_gradients = gradients().peak_bytes - before;
  step.complete_parameters();
  for (const NamedParameter& p : task->model().parameters())
    steps.state.push_back(p.variable.value().clone());
  for (const NamedTensor& entry : optimizer.state()) steps.state.push_back(entry.tensor.clone());
  if (step.average() != nullptr) {
    for (const NamedTensor& entry : step.average()->state()) steps.state.push_back(entry.tensor.clone());
  }
  return steps;
}

}  // namespace moh::test
