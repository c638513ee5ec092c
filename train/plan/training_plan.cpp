#include "train/plan/training_plan.h"

#include <string>

#include "core/error.h"
#include "train/tasks/llama_from_config.h"

namespace moh {

namespace {

void check(const PlanOptions& o) {
  const auto require = [](bool condition, const char* option, const char* expected,
                          const std::string& found) {
    if (!condition) throw ValueError(error_message("moh plan", option, expected, found));
  };
  constexpr std::int64_t kMostGpus = 1 << 20;
  require(o.gpus >= 1 && o.gpus <= kMostGpus, "--gpus", "1 to 1048576", std::to_string(o.gpus));
  require(o.mfu > 0 && o.mfu <= 1, "--mfu", "a share above 0, at most 1", std::to_string(o.mfu));
}

std::int64_t needed_bytes(RunConfig config, RecomputeLevel recompute, std::int64_t batch) {
  config.model.recompute = recompute;
  config.train.batch_size = batch;
  return plan_memory(config).needed_bytes();
}

/// The largest train.batch_size that fits, up to a number beyond all use.
std::int64_t largest_batch(const RunConfig& config, RecomputeLevel recompute, std::int64_t bytes) {
  constexpr std::int64_t kMost = 1 << 16;
  const auto fits = [&](std::int64_t batch) { return needed_bytes(config, recompute, batch) <= bytes; };
  std::int64_t good = 0, bad = 1;
  while (bad <= kMost && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  while (bad - good > 1) {
    const std::int64_t middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

MemoryChoice memory_with(RunConfig config, RecomputeLevel recompute, const PlanOptions& options) {
  config.model.recompute = recompute;
  MemoryChoice choice{recompute, plan_memory(config)};
  if (options.memory_bytes) choice.largest_batch = largest_batch(config, recompute, *options.memory_bytes);
  return choice;
}

LeastMemory least_in(RunConfig config, Precision precision) {
  config.precision = precision;
  config.train.accumulate = 1;
  return {precision, needed_bytes(config, RecomputeLevel::kLayer, 1)};
}

StepFlops flops_per_token(const RunConfig& config) {
  const std::int64_t sequences = config.train.batch_size, length = config.data.sequence_length;
  const StepFlops flops = step_flops(llama_config_of(config.model), sequences, length, config.device);
  const auto tokens = static_cast<double>(sequences * length);
  return {flops.dense / tokens, flops.routed / tokens};
}

TimePlan time_of(const TrainingPlan& plan) {
  const PlanOptions& o = plan.options;
  const double rate = static_cast<double>(o.gpus) * o.mfu * o.peak->tflops * 1e12;
  TimePlan time;
  time.tokens_per_s = rate / plan.flops_per_token.routed;
  time.step_seconds = static_cast<double>(plan.tokens_per_step()) / time.tokens_per_s;
  time.seconds = time.step_seconds * static_cast<double>(plan.config.train.steps);
  return time;
}

}  // namespace

std::int64_t TrainingPlan::tokens_per_step() const {
  const TrainConfig& train = config.train;
  return options.gpus * train.accumulate * train.batch_size * config.data.sequence_length;
}

const MemoryChoice& TrainingPlan::configured() const {
  return memory[config.model.recompute == RecomputeLevel::kNone ? 0 : 1];
}

bool TrainingPlan::fits(const MemoryChoice& choice) const {
  return choice.memory.needed_bytes() <= options.memory_bytes.value();
}

TrainingPlan plan_training(const RunConfig& config, const PlanOptions& options) {
  check(options);
  const LlamaConfig model = llama_config_of(config.model);
  check(model);
  TrainingPlan plan{.config = config, .options = options};
  plan.parameters = count_parameters(model);
  plan.activated_heads = activated_heads(model, /*training=*/true);
  plan.flops_per_token = flops_per_token(config);
  plan.memory = {memory_with(config, RecomputeLevel::kNone, options),
                 memory_with(config, RecomputeLevel::kLayer, options)};
  plan.least = {least_in(config, Precision::kFloat32), least_in(config, Precision::kBFloat16)};
  if (options.peak) plan.time = time_of(plan);
  return plan;
}

}  // namespace moh
