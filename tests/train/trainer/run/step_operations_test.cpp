#include "train/trainer/run/step_operations.h"

#include <catch2/catch.hpp>

#include "tests/support/language_runs.h"
#include "train/apps/plan/dry_step.h"
#include "train/trainer/run/train_step.h"

using namespace moh;

namespace {

/// Operations of each of the first `count` steps of a run.
std::vector<double> flops_of_steps(const RunConfig& config, std::int64_t count) {
  const std::unique_ptr<Task> task = synthetic_tasks(language_family())(config);
  AdamW optimizer(task->model(), config.optim.adamw);
  TrainStep step(*task, optimizer, config);
  task->seek(0, {});
  std::vector<double> flops;
  for (std::int64_t i = 0; i < count; ++i) {
    step.begin(i, 1e-4);
    flops.push_back(step.finish().flops);
  }
  return flops;
}

RunConfig run_of(std::int64_t top_k) {
  RunConfig config = small_language_run();
  config.train.accumulate = 2;
  if (top_k == 0) return config;
  model_of(config).moh.router = routers::kLearned;
  model_of(config).moh.num_shared = 1;
  model_of(config).moh.top_k = top_k;
  return config;
}

}  // namespace

TEST_CASE("step operations: they are those of the plan, in every step") {
  for (const bool recomputed : {false, true}) {
    RunConfig config = run_of(0);
    model_of(config).recompute = recomputed ? RecomputeLevel::kLayer : RecomputeLevel::kNone;
    const double planned = step_flops(config, synthetic_tasks(language_family())).routed;
    CHECK(flops_of_steps(config, 2) == std::vector<double>(2, planned));
  }
}

TEST_CASE("step operations: heads that a token does not use are not counted") {
  const RunConfig config = run_of(1);
  const StepFlops planned = step_flops(config, synthetic_tasks(language_family()));
  const double counted = flops_of_steps(config, 1).at(0);
  CHECK(counted < 0.98 * planned.dense);
  CHECK(counted == Approx(planned.routed).epsilon(0.02));  // the plan's routers choose all heads alike
}

TEST_CASE("step operations: they are counted anew where k changes") {
  RunConfig config = run_of(1);
  config.train.steps = 4;
  model_of(config).moh.top_k_anneal_until = 1;
  const std::vector<double> flops = flops_of_steps(config, 4);
  CHECK(flops.back() < flops.front());
}

TEST_CASE("step operations: a step that was interrupted is not counted") {
  StepOperations operations;
  CHECK_FALSE(operations.count(8, true, [] { return false; }));
  CHECK(operations.of(8) == 0);
}
