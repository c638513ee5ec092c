#include "train/apps/plan/training_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/base/log/format.h"
#include "train/base/measure/ceilings.h"
#include "train/base/measure/require_option.h"
#include "train/config/fields.h"
#include "train/config/number_text.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/run/evaluation_schedule.h"

namespace moh {

namespace {

constexpr std::string_view kPlan = "moh plan";

void check(const PlanOptions& o) {
  constexpr std::int64_t kMostGpus = 1 << 20;
  require_option(o.gpus >= 1 && o.gpus <= kMostGpus, kPlan, "--gpus", "1 to 1048576", o.gpus);
  const std::int64_t zero = o.zero.value_or(0);
  require_option(zero >= 0 && zero <= 3, kPlan, "--zero", "0 to 3", zero);
  require_option(o.mfu > 0 && o.mfu <= 1, kPlan, "--mfu", "a share above 0, at most 1", o.mfu);
}

/// Throws ValueError if the number of items of the whole run overflows.
void check_sizes(const RunConfig& config, std::int64_t items_per_sample, std::int64_t steps,
                 const PlanOptions& o) {
  std::int64_t items = items_per_sample;
  for (const std::int64_t factor :
       {config.train.batch_size, config.train.accumulate, o.gpus, std::max<std::int64_t>(1, steps)}) {
    if (!__builtin_mul_overflow(items, factor, &items)) continue;
    throw ValueError(error_message(kPlan, "items of the run", "a number below 2^63", "more",
                                   "lower train.batch_size, train.accumulate or the size of a sample"));
  }
}

/// The run of one of `gpus` devices, which share the samples of a step.
RunConfig share_of_device(RunConfig config, std::int64_t gpus) {
  const std::optional<TrainConfig> share = share_of_process(config.train, gpus);
  require_option(share.has_value(), kPlan, "--gpus",
                 "a divisor of the samples of a step, train.batch_size " +
                     std::to_string(config.train.batch_size) + " x train.accumulate " +
                     std::to_string(config.train.accumulate),
                 gpus);
  config.train = *share;
  return config;
}

/// The run with model.recompute set to `level`, if the family supports it.
RunConfig with_recompute(RunConfig config, RecomputeLevel level) {
  if (RecomputeLevel* recompute = config.family->recompute()) *recompute = level;
  return config;
}

/// The settings of model.recompute that the family supports.
std::span<const RecomputeLevel> levels_of(RunConfig& config) {
  const std::span all(kRecomputeLevels);
  return config.family->recompute() == nullptr ? all.first(1) : all;
}

constexpr std::int64_t kTooMuch = std::numeric_limits<std::int64_t>::max();

/// The memory needed with train.batch_size = batch; kTooMuch if its sizes overflow.
std::int64_t needed_bytes(RunConfig config, std::int64_t batch, const MakeTask& make_task,
                          std::int64_t gpus) {
  config.train.batch_size = batch;
  try {
    return plan_memory(config, make_task, gpus).needed_bytes();
  } catch (const MemoryError&) {
    return kTooMuch;
  } catch (const ShapeError&) {
    return kTooMuch;
  }
}

/// The largest train.batch_size that fits in `bytes`, up to the limit of that key; 0 if none does. Memory is
/// nearly affine in the batch size, so linear interpolation finds it in a few probes; every fourth bisects.
std::int64_t largest_batch(const RunConfig& config, std::int64_t bytes, const MakeTask& make_task,
                           std::int64_t gpus) {
  constexpr auto kMost = static_cast<std::int64_t>(config::kMaxWidth);
  struct Size {
    std::int64_t batch, bytes;
  };
  Size good{0, 0}, before = good;
  std::optional<Size> bad;
  const auto on_line = [&](std::int64_t most) {
    const Size other = bad.value_or(before);
    const double slope =
        static_cast<double>(other.bytes - good.bytes) / static_cast<double>(other.batch - good.batch);
    const double more = static_cast<double>(bytes - good.bytes) / slope;
    return more < static_cast<double>(most - good.batch) ? good.batch + static_cast<std::int64_t>(more)
                                                         : most;
  };
  for (int probes = 0; good.batch < kMost && (!bad || bad->batch - good.batch > 1); ++probes) {
    const std::int64_t most = bad ? bad->batch - 1 : kMost, middle = good.batch + (most - good.batch + 1) / 2;
    const bool has_line = good.batch > 1 && (!bad || bad->bytes < kTooMuch);
    const std::int64_t wanted = probes < 2                    ? good.batch + 1
                                : has_line && probes % 4 != 0 ? on_line(most)
                                                              : middle;
    const std::int64_t batch = std::clamp(wanted, good.batch + 1, most);
    const Size size{batch, needed_bytes(config, batch, make_task, gpus)};
    if (size.bytes <= bytes)
      before = std::exchange(good, size);
    else
      bad = size;
  }
  return good.batch;
}

/// The length of the run; nothing for epochs of data of unknown size.
std::optional<RunLength> length_of_plan(const TrainingPlan& plan) {
  const TrainConfig& train = plan.config.train;
  if (train.epochs > 0 && plan.step.steps_per_epoch == 0) return std::nullopt;
  // `step` is one micro-batch of one device.
  return length_of(plan.config, plan.step.steps_per_epoch / (train.accumulate * plan.options.gpus));
}

TimePlan time_of(const TrainingPlan& plan) {
  const PlanOptions& o = plan.options;
  const double rate = static_cast<double>(o.gpus) * o.mfu * o.peak->tflops * 1e12;
  TimePlan time;
  time.items_per_s = rate / plan.flops_per_item.routed;
  time.step_seconds = static_cast<double>(plan.items_per_step()) / time.items_per_s;
  if (plan.steps()) time.seconds = time.step_seconds * static_cast<double>(*plan.steps());
  if (const std::optional<double> share = plan.evaluation_share())
    time.evaluation_seconds = time.seconds.value() * *share;
  return time;
}

/// "bfloat16", "float32 on tensor cores (TF32)", "float32 without tensor cores".
std::string arithmetic(DType dtype, bool tf32) {
  if (dtype != DType::kFloat32) return std::string(dtype_name(dtype));
  return tf32 ? "float32 on tensor cores (TF32)" : "float32 without tensor cores";
}

/// "tf32: true has 495, precision: bfloat16 989": what is faster on this GPU than the run's arithmetic.
std::string faster_arithmetic(const std::string& gpu, DType dtype, bool tf32) {
  if (dtype != DType::kFloat32) return "";
  const auto rate = [&](DType type, bool on_tensor_cores) {
    return config::number_text(published_gflops(gpu, type, on_tensor_cores).value_or(0) * 1e-3);
  };
  return (tf32 ? "" : "tf32: true has " + rate(dtype, true) + ", ") + "precision: bfloat16 " +
         (tf32 ? "has " : "") + rate(DType::kBFloat16, false);
}

/// Of settings that take as much, the first, which computes least again.
void find_least(LeastMemory& least, RunConfig& run, const MakeTask& make_task, std::int64_t gpus) {
  for (const RecomputeLevel level : levels_of(run)) {
    const std::int64_t bytes = needed_bytes(with_recompute(run, level), 1, make_task, gpus);
    if (bytes < least.bytes) {
      least.bytes = bytes;
      least.recompute = level;
    }
  }
}

void add_memory(TrainingPlan& plan, const MakeTask& make_task) {
  const PlanOptions& options = plan.options;
  RunConfig one = plan.config;
  one.train.accumulate = 1;
  for (const RecomputeLevel level : levels_of(one)) {
    const RunConfig run = with_recompute(plan.config, level);
    plan.memory.push_back({level, plan_memory(run, make_task, options.gpus)});
    if (options.memory_bytes && options.largest_batches)
      plan.memory.back().largest_batch = largest_batch(run, *options.memory_bytes, make_task, options.gpus);
  }
  for (LeastMemory& least : plan.least) {
    one.precision = least.precision;
    find_least(least, one, make_task, options.gpus);
  }
}

TrainingPlan plan_of(const RunConfig& config, const PlanOptions& options, const MakeTask& make_task) {
  TrainingPlan plan{.config = config, .options = options};
  RunConfig one = config;
  one.train.accumulate = 1;
  plan.step = dry_step(one, make_task, usual_step(one));
  check_sizes(config, plan.items_per_sample(), plan.steps().value_or(1), options);
  const StepFlops flops = step_flops(one, plan.step, make_task);
  const auto items = static_cast<double>(plan.step.items);
  plan.flops_per_item = flops.times(1 / items);
  if (!options.no_memory) add_memory(plan, make_task);
  if (options.peak) plan.time = time_of(plan);
  return plan;
}

}  // namespace

std::int64_t parse_memory(const std::string& text, const std::string& option) {
  if (const std::optional<std::int64_t> bytes = parse_bytes(text)) return *bytes;
  throw ValueError(
      error_message(kPlan, option, "a size in bytes, such as 141GB, 79.6GiB or 24e9", printable(text)));
}

bool is_number(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

PeakRate parse_peak(const std::string& text, DType dtype, const std::string& option, bool tf32) {
  if (is_number(text)) {
    double number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    if (number > 0 && std::isfinite(number)) return {number, "", "", ""};
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kShort = {
      {{"H100", "NVIDIA H100 80GB HBM3"}, {"H200", "NVIDIA H200"}, {"A100", "NVIDIA A100-SXM4-80GB"}}};
  const auto* const known =
      std::ranges::find(kShort, text, &std::pair<std::string_view, std::string_view>::first);
  const std::string name(known == kShort.end() ? std::string_view(text) : known->second);
  if (const std::optional<double> gflops = published_gflops(name, dtype, tf32))
    return {*gflops * 1e-3, name, arithmetic(dtype, tf32), faster_arithmetic(name, dtype, tf32)};
  throw ValueError(error_message(
      kPlan, option,
      "TFLOP/s, or H100, H200 or A100, whose rates are published for bfloat16, TF32 "
      "and float32",
      printable(text),
      "give the number that your GPU reaches in the run's precision, which is " + arithmetic(dtype, tf32)));
}

DiskPlan TrainingPlan::disk() const {
  const CheckpointConfig& c = config.checkpoint;
  const std::optional<std::int64_t> last = steps();
  std::int64_t kept = c.keep_last + (c.keep_best ? 1 : 0);
  kept += std::ranges::count_if(std::set<std::int64_t>(c.keep.begin(), c.keep.end()),
                                [&](std::int64_t milestone) { return !last || milestone <= *last; });
  if (last) {
    const std::int64_t per_epoch = step.steps_per_epoch / (config.train.accumulate * options.gpus);
    const std::int64_t every = length_of(config, per_epoch).of(c.every_epochs, c.every);
    const std::int64_t saves = (every > 0 ? *last / every : 0) + 1 + std::ssize(c.keep);
    kept = std::min(kept, saves);
  }
  return {step.checkpoint_bytes, kept + 1};
}

std::int64_t TrainingPlan::items_per_step() const {
  const TrainConfig& train = config.train;
  return options.gpus * train.accumulate * train.batch_size * items_per_sample();
}

std::optional<std::int64_t> TrainingPlan::steps() const {
  const std::optional<RunLength> length = length_of_plan(*this);
  return length ? std::optional(length->steps) : std::nullopt;
}

std::optional<EvaluationPlan> TrainingPlan::evaluations() const {
  const std::optional<RunLength> length = length_of_plan(*this);
  if (!length) return std::nullopt;
  const EvaluationWork work = config.family->evaluation_work();
  EvaluationPlan plan;
  if (work.held_out) plan.items = *work.held_out + work.samples;
  if (!plan.items || *plan.items > 0) plan.count = EvaluationSchedule(config, *length).count_after(-1);
  return plan;
}

std::optional<double> TrainingPlan::evaluation_share() const {
  const std::optional<EvaluationPlan> plan = evaluations();
  if (!plan || !plan->items) return std::nullopt;
  const double of_steps =
      flops_per_item.routed * static_cast<double>(items_per_step()) * static_cast<double>(steps().value());
  return flops_per_item.routed_forward * static_cast<double>(*plan->items) *
         static_cast<double>(plan->count) / of_steps;
}

const MemoryChoice& TrainingPlan::configured() const {
  RunConfig copy = config;
  const RecomputeLevel* recompute = copy.family->recompute();
  return memory[recompute == nullptr ? 0 : static_cast<std::size_t>(*recompute)];
}

const MemoryChoice* TrainingPlan::least_recomputing() const {
  const MemoryChoice* found = nullptr;
  for (const MemoryChoice& choice : memory) {
    if (fits(choice) && (found == nullptr || choice.memory.recomputed < found->memory.recomputed))
      found = &choice;
  }
  return found;
}

bool TrainingPlan::fits(const MemoryChoice& choice) const {
  return choice.memory.needed_bytes() <= options.memory_bytes.value();
}

TrainingPlan plan_training(const RunConfig& config, const PlanOptions& options, const MakeTask& make_task) {
  check(options);
  try {
    require_one_micro_batch_each(config, options.gpus);
    RunConfig of_device = share_of_device(config, options.gpus);
    of_device.comm.zero = options.zero.value_or(config.comm.zero);
    return plan_of(of_device, options, make_task);
  } catch (const MemoryError& error) {  // sizes that overflow are errors of the configuration
    throw ValueError(error.what());
  } catch (const ShapeError& error) {
    throw ValueError(error.what());
  }
}

MemoryChoice choose_recompute(const RunConfig& config, std::int64_t gpus, std::int64_t bytes,
                              const MakeTask& make_task) {
  const TrainingPlan plan =
      plan_training(config, {.gpus = gpus, .memory_bytes = bytes, .largest_batches = false}, make_task);
  if (const MemoryChoice* const least = plan.least_recomputing()) return *least;
  const MemoryChoice& smallest = *std::ranges::min_element(
      plan.memory, {}, [](const MemoryChoice& choice) { return choice.memory.needed_bytes(); });
  throw ConfigError(error_message(
      "moh train", "--memory",
      format_bytes(smallest.memory.needed_bytes()) +
          " or more, with model.recompute: " + std::string(name_of(smallest.recompute)),
      format_bytes(bytes), "moh plan shows what takes it; a smaller train.batch_size takes less"));
}

}  // namespace moh
