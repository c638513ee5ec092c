#include "train/apps/plan/dry_step.h"

#include <catch2/catch.hpp>

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "tests/mlp_family/mlp_family.h"
#include "tests/support/language_runs.h"
#include "train/trainer/run/train_step.h"

using namespace moh;

namespace {

const MakeTask make_language_task = synthetic_tasks(language_family());

RunConfig routed_config(RouterKey router) {
  RunConfig config = small_language_run();
  model_of(config).moh.router = router;
  model_of(config).moh.num_shared = 1;
  model_of(config).moh.top_k = 1;
  return config;
}

double flops_of_real_step(const RunConfig& config) {
  const std::unique_ptr<Task> task = make_language_task(config);
  AdamW optimizer(task->model(), config.optim.adamw);
  TrainStep step(*task, optimizer, config);
  task->seek(0, {});
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  step.begin(0, 1e-4);
  return profiler.model_flops();
}

/// Tasks of a family that the program does not know.
const MakeTask make_mlp = synthetic_tasks(test::mlp_family());

/// The allocator's peak over a real step.
std::int64_t measured_peak(const RunConfig& config) {
  CpuAllocator& allocator = CpuAllocator::instance();
  const std::int64_t before = allocator.stats().total.current_bytes;
  allocator.reset_peaks();
  const std::unique_ptr<Task> task = make_mlp(config);
  AdamW optimizer(task->model(), config.optim.adamw);
  TrainStep step(*task, optimizer, config);
  for (std::int64_t i = 0; i < 2; ++i) {
    step.begin(i, 1e-4);
    step.finish();
  }
  return allocator.stats().total.peak_bytes - before;
}

}  // namespace

TEST_CASE("plan: a dry step has the operations of a real one") {
  RunConfig recomputed = routed_config(routers::kLearned);
  model_of(recomputed).recompute = RecomputeLevel::kLayer;
  recomputed.train.accumulate = 2;
  for (const RunConfig& config : {small_language_run(), routed_config(routers::kLearned),
                                  routed_config(routers::kQueryNorm), recomputed}) {
    const StepFlops flops = step_flops(config, make_language_task);
    CHECK(flops.routed == flops_of_real_step(config));
    CHECK((flops.routed < flops.dense) == (model_of(config).moh.router != routers::kNone));
  }
}

TEST_CASE("plan: what many micro-batches take follows from a few") {
  for (const Device device : {kCpu, Device{Device::Type::kCuda, 0}}) {
    RunConfig config = routed_config(routers::kLearned);
    config.device = device;
    config.train.accumulate = 7;
    const MemoryPlan plan = plan_memory(config, make_language_task);
    const DryStep step = dry_step(config, make_language_task);
    CHECK(plan.stats.total.peak_bytes == step.memory.stats.total.peak_bytes);
    CHECK(plan.evaluation_bytes == step.memory.evaluation_bytes);
    CHECK(plan.at_peak == step.memory.at_peak);
    for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
      CHECK(plan.stats.by_purpose[i].peak_bytes == step.memory.stats.by_purpose[i].peak_bytes);
    }
  }
}

TEST_CASE("plan: a model that the program does not know is planned as it is") {
  RunConfig config = default_run(test::mlp_family().defaults());
  config.train.batch_size = 500;
  config.train.accumulate = 2;
  const DryStep step = dry_step(config, make_mlp);
  CHECK(static_cast<double>(step.memory.stats.total.peak_bytes) ==
        Approx(static_cast<double>(measured_peak(config))).epsilon(0.05));
  CHECK(step.parameters == 16 * 64 + 64 + 64 * 4 + 4);
  // The input's gradient is not wanted: two products for the first layer, three for the second.
  CHECK(step.flops == 2 * 2.0 * 500 * (2 * 16 * 64 + 3 * 64 * 4));
}

TEST_CASE("plan: sizes that no device could have are an error, at once") {
  RunConfig config = small_language_run();
  model_of(config).hidden = 1 << 20;
  model_of(config).max_positions = std::int64_t{1} << 24;
  language_run(config).data.sequence_length = std::int64_t{1} << 24;
  config.train.batch_size = 1 << 20;
  for (const Device device : {kCpu, Device{Device::Type::kCuda, 0}}) {
    config.device = device;
    CHECK_THROWS_AS(plan_memory(config, make_language_task), Error);
  }
}
