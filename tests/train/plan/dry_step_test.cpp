#include "train/plan/dry_step.h"

#include <catch2/catch.hpp>

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "models/layers/linear.h"
#include "ops/linalg/gelu_mlp.h"
#include "ops/loss/cross_entropy.h"
#include "train/plan/memory_plan.h"
#include "train/trainer/trainer.h"

using namespace moh;

namespace {

RunConfig small_config() {
  RunConfig config;
  config.model.layers = 2;
  config.model.hidden = 128;
  config.model.intermediate = 352;
  config.model.heads = 4;
  config.model.vocab_size = 512;
  config.model.max_positions = 256;
  config.data.sequence_length = 160;
  config.train.batch_size = 2;
  return config;
}

RunConfig routed_config(RouterChoice router) {
  RunConfig config = small_config();
  config.model.moh.router = router;
  config.model.moh.shared.every = 1;
  config.model.moh.routed.every = 1;
  return config;
}

double flops_of_real_step(const RunConfig& config) {
  const std::unique_ptr<Task> task = make_synthetic_task(config);
  AdamW optimizer(task->model().parameters(), adamw_options_of(config.optim));
  TrainStep step(*task, optimizer, config);
  task->seek(0);
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  step.begin(0, 1e-4);
  return profiler.model_flops();
}

/// A classifier of made-up numbers that the program does not know.
class MlpTask : public Task, Module {
 public:
  explicit MlpTask(const RunConfig& config)
      : rows_(config.train.batch_size),
        device_(config.device),
        up_(kInputs, kHidden, true, {DType::kFloat32, config.device}),
        down_(kHidden, kClasses, true, {DType::kFloat32, config.device}) {
    add_child("up", up_);
    add_child("down", down_);
    for (const NamedParameter& p : parameters()) p.variable.value().fill(0.01);
  }

  const Module& model() const override { return *this; }
  void seek(std::int64_t) override {}
  StepSize begin_step(std::int64_t count) override {
    const MemoryPurposeScope purpose(MemoryPurpose::kData);
    x_ = full({rows_, kInputs}, 1.0, DType::kFloat32, device_);
    labels_ = zeros({rows_}, DType::kInt64, device_);
    return {count * rows_, count * rows_};
  }
  MicroBatchLoss loss(std::int64_t, Generator&) override {
    const Variable y =
        gelu_mlp(Variable(x_), up_.weight(), up_.bias(), down_.weight(), down_.bias(), GeluForm::kTanh);
    const Variable loss = cross_entropy(y, labels_);
    return {loss, loss.value(), {}};
  }
  void end_step() override {}
  StepStatistics statistics(const StepSize& size, std::int64_t, std::span<const double>) const override {
    return {.tokens = size.tokens, .balance_loss = {}, .head_load = {}, .activated_heads = {}};
  }
  std::optional<Evaluation> evaluate(FunctionRef<bool()>) override { return std::nullopt; }
  std::vector<std::pair<std::string, std::string>> identity() const override { return {}; }

 private:
  static constexpr std::int64_t kInputs = 96, kHidden = 300, kClasses = 10;
  std::int64_t rows_;
  Device device_;
  Linear up_, down_;
  Tensor x_, labels_;
};

std::unique_ptr<Task> make_mlp(const RunConfig& config) {
  return std::make_unique<MlpTask>(config);
}

/// The allocator's peak over a real step.
std::int64_t measured_peak(const RunConfig& config) {
  CpuAllocator& allocator = CpuAllocator::instance();
  const std::int64_t before = allocator.stats().total.current_bytes;
  allocator.reset_peaks();
  MlpTask task(config);
  AdamW optimizer(task.model().parameters(), adamw_options_of(config.optim));
  TrainStep step(task, optimizer, config);
  for (std::int64_t i = 0; i < 2; ++i) {
    step.begin(i, 1e-4);
    step.finish();
  }
  return allocator.stats().total.peak_bytes - before;
}

}  // namespace

TEST_CASE("plan: a dry step has the operations of a real one") {
  RunConfig recomputed = routed_config(RouterChoice::kLearned);
  recomputed.model.recompute = RecomputeLevel::kLayer;
  recomputed.train.accumulate = 2;
  for (const RunConfig& config : {small_config(), routed_config(RouterChoice::kLearned),
                                  routed_config(RouterChoice::kQueryNorm), recomputed}) {
    const StepFlops flops = step_flops(config);
    CHECK(flops.routed == flops_of_real_step(config));
    CHECK((flops.routed < flops.dense) == (config.model.moh.router != RouterChoice::kNone));
  }
}

TEST_CASE("plan: what many micro-batches take follows from a few") {
  for (const Device device : {kCpu, Device{Device::Type::kCuda, 0}}) {
    RunConfig config = routed_config(RouterChoice::kLearned);
    config.device = device;
    config.train.accumulate = 7;
    const MemoryPlan plan = plan_memory(config);
    const DryStep step = dry_step(config, make_synthetic_task);
    CHECK(plan.stats.total.peak_bytes == step.memory.stats.total.peak_bytes);
    CHECK(plan.evaluation_bytes == step.evaluation_bytes);
    CHECK(plan.at_peak == step.memory.at_peak);
    for (std::size_t i = 0; i < kNumMemoryPurposes; ++i) {
      CHECK(plan.stats.by_purpose[i].peak_bytes == step.memory.stats.by_purpose[i].peak_bytes);
    }
  }
}

TEST_CASE("plan: a model that the program does not know is planned as it is") {
  RunConfig config;
  config.train.batch_size = 500;
  config.train.accumulate = 2;
  const DryStep step = dry_step(config, make_mlp);
  CHECK(static_cast<double>(step.memory.stats.total.peak_bytes) ==
        Approx(static_cast<double>(measured_peak(config))).epsilon(0.05));
  CHECK(step.parameters == 96 * 300 + 300 + 300 * 10 + 10);
  // The input's gradient is not wanted: two products for the first layer, three for the second.
  CHECK(step.flops == 2 * 2.0 * 500 * (2 * 96 * 300 + 3 * 300 * 10));
}

TEST_CASE("plan: sizes that no device could have are an error, at once") {
  RunConfig config = small_config();
  config.model.hidden = 1 << 20;
  config.model.max_positions = std::int64_t{1} << 24;
  config.data.sequence_length = std::int64_t{1} << 24;
  config.train.batch_size = 1 << 20;
  for (const Device device : {kCpu, Device{Device::Type::kCuda, 0}}) {
    config.device = device;
    CHECK_THROWS_AS(plan_memory(config), Error);
  }
}
