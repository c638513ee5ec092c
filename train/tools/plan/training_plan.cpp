#include "train/tools/plan/training_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/error.h"

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

/// The sizes of the run, multiplied, are numbers.
void check_sizes(const RunConfig& config, std::int64_t items_per_sample, const PlanOptions& o) {
  std::int64_t items = items_per_sample;
  for (const std::int64_t factor : {config.train.batch_size, config.train.accumulate, o.gpus,
                                    std::max<std::int64_t>(1, config.train.steps)}) {
    if (!__builtin_mul_overflow(items, factor, &items)) continue;
    throw ValueError(error_message("moh plan", "inputs of the run", "a number below 2^63", "more",
                                   "lower train.batch_size, train.accumulate or the size of a sample"));
  }
}

/// Plans of one run that differ in a few settings.
class Plans {
 public:
  Plans(RunConfig config, const MakeTask& make_task) : config_(std::move(config)), make_task_(make_task) {}

  MemoryChoice memory_with(RecomputeLevel recompute, const PlanOptions& options) {
    set_recompute(recompute);
    MemoryChoice choice{recompute, plan_memory(config_, make_task_)};
    if (options.memory_bytes) choice.largest_batch = largest_batch(*options.memory_bytes);
    return choice;
  }

  LeastMemory least_in(Precision precision) {
    config_.precision = precision;
    config_.train.accumulate = 1;
    set_recompute(RecomputeLevel::kLayer);
    return {precision, needed_bytes(1).value_or(kTooMuch)};
  }

 private:
  /// Where the family has it.
  void set_recompute(RecomputeLevel level) {
    if (RecomputeLevel* recompute = config_.family->recompute()) *recompute = level;
  }
  static constexpr std::int64_t kTooMuch = std::numeric_limits<std::int64_t>::max();

  /// Nothing where it is more than can be counted.
  std::optional<std::int64_t> needed_bytes(std::int64_t batch) {
    config_.train.batch_size = batch;
    try {
      return plan_memory(config_, make_task_).needed_bytes();
    } catch (const MemoryError&) {
      return std::nullopt;
    } catch (const ShapeError&) {
      return std::nullopt;
    }
  }
  std::int64_t largest_batch(std::int64_t bytes);

  RunConfig config_;
  const MakeTask& make_task_;
};

/// The largest train.batch_size that fits, up to a number beyond all use. Memory is nearly affine in the size
/// of the batch, so where a straight line through two sizes meets the limit is mostly right.
std::int64_t Plans::largest_batch(std::int64_t bytes) {
  constexpr std::int64_t kMost = 1 << 16;
  struct Size {
    std::int64_t batch;
    double bytes;
  };
  Size good{0, 0.0}, before = good;
  std::optional<Size> bad;
  const auto on_line = [&](std::int64_t most) {
    const Size other = bad.value_or(before);
    const double slope = (other.bytes - good.bytes) / static_cast<double>(other.batch - good.batch);
    const double more = (static_cast<double>(bytes) - good.bytes) / slope;
    return more < static_cast<double>(most - good.batch) ? good.batch + static_cast<std::int64_t>(more)
                                                         : most;
  };
  for (int probes = 0; good.batch < kMost && (!bad || bad->batch - good.batch > 1); ++probes) {
    const std::int64_t most = bad ? bad->batch - 1 : kMost, middle = good.batch + (most - good.batch + 1) / 2;
    const bool has_line = good.batch > 1 && (!bad || std::isfinite(bad->bytes));
    const std::int64_t wanted = probes < 2                    ? good.batch + 1
                                : has_line && probes % 4 != 0 ? on_line(most)
                                                              : middle;
    const std::int64_t batch = std::clamp(wanted, good.batch + 1, most);
    const std::optional<std::int64_t> needed = needed_bytes(batch);
    const Size size{batch, needed ? static_cast<double>(*needed) : std::numeric_limits<double>::infinity()};
    if (needed && *needed <= bytes) {
      before = std::exchange(good, size);
    } else {
      bad = size;
    }
  }
  return good.batch;
}

TimePlan time_of(const TrainingPlan& plan) {
  const PlanOptions& o = plan.options;
  const double rate = static_cast<double>(o.gpus) * o.mfu * o.peak->tflops * 1e12;
  TimePlan time;
  time.items_per_s = rate / plan.flops_per_item.routed;
  time.step_seconds = static_cast<double>(plan.items_per_step()) / time.items_per_s;
  time.seconds = time.step_seconds * static_cast<double>(plan.config.train.steps);
  return time;
}

TrainingPlan plan_of(const RunConfig& config, const PlanOptions& options, const MakeTask& make_task) {
  TrainingPlan plan{.config = config, .options = options};
  RunConfig one = config;
  one.train.accumulate = 1;
  const DryStep step = dry_step(one, make_task);
  plan.parameters = step.parameters;
  plan.activated_heads = step.activated_heads;
  plan.unit = step.unit;
  plan.sample_sizes = step.sample_sizes;
  plan.items_per_sample = step.items / one.train.batch_size;
  check_sizes(config, plan.items_per_sample, options);
  const StepFlops flops = step_flops(one, step, make_task);
  const auto items = static_cast<double>(step.items);
  plan.flops_per_item = {flops.dense / items, flops.routed / items};
  const MohConfig* moh = one.family->moh();
  plan.is_routed = moh != nullptr && moh->router != RouterKind::kNone;
  const auto plans = [&] { return Plans(config, make_task); };
  plan.memory.push_back(plans().memory_with(RecomputeLevel::kNone, options));
  if (one.family->recompute() != nullptr)
    plan.memory.push_back(plans().memory_with(RecomputeLevel::kLayer, options));
  plan.least = {plans().least_in(Precision::kFloat32), plans().least_in(Precision::kBFloat16)};
  if (options.peak) plan.time = time_of(plan);
  return plan;
}

}  // namespace

std::int64_t TrainingPlan::items_per_step() const {
  const TrainConfig& train = config.train;
  return options.gpus * train.accumulate * train.batch_size * items_per_sample;
}

const MemoryChoice& TrainingPlan::configured() const {
  RunConfig copy = config;
  const RecomputeLevel* recompute = copy.family->recompute();
  return recompute == nullptr || *recompute == RecomputeLevel::kNone ? memory.front() : memory.back();
}

bool TrainingPlan::fits(const MemoryChoice& choice) const {
  return choice.memory.needed_bytes() <= options.memory_bytes.value();
}

TrainingPlan plan_training(const RunConfig& config, const PlanOptions& options, const MakeTask& make_task) {
  check(options);
  try {
    return plan_of(config, options, make_task);
  } catch (const MemoryError& error) {  // sizes that cannot be counted are faults of the configuration
    throw ValueError(error.what());
  } catch (const ShapeError& error) {
    throw ValueError(error.what());
  }
}

}  // namespace moh
