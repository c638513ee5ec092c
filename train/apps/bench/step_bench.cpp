#include "train/apps/bench/step_bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "core/cuda/backend.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "core/process_memory.h"
#include "train/base/math/statistics.h"
#include "train/base/measure/require_option.h"
#include "train/trainer/run/train_step.h"
#include "train/trainer/task/load_model.h"

namespace moh {

namespace {

constexpr std::string_view kStepBench = "bench step";

void check(const RunConfig& config, const StepBenchOptions& o) {
  require_one_micro_batch_each(config, 1);
  require_option(o.steps >= 1, kStepBench, "steps", "1 or more", o.steps);
  require_option(o.warmup >= 0, kStepBench, "warmup", "0 or more", o.warmup);
  if (o.kernels && config.device == kCpu) {
    throw ValueError(error_message(kStepBench, "kernels", "a GPU, whose kernels are timed", "device: cpu",
                                   "set device=cuda; profile measures ops on a CPU"));
  }
  if (!config.cuda_graph) return;
  // The steps before the capture and the captured step itself are slower than replayed ones.
  constexpr int kLeast = TrainStep::kRehearsals + 1;
  require_option(o.warmup >= kLeast, kStepBench, "warmup",
                 std::to_string(kLeast) + " or more with cuda_graph", o.warmup);
  for (const auto& [wanted, name, by] :
       {std::tuple(o.profile, "profile", "op"), std::tuple(o.kernels, "kernels", "kernel")}) {
    if (!wanted) continue;
    throw ValueError(error_message(
        kStepBench, name, "cuda_graph: false, as a replayed graph cannot be timed by " + std::string(by),
        "cuda_graph: true", "set cuda_graph=false"));
  }
}

rusage usage() {
  rusage now{};
  MOH_CHECK(getrusage(RUSAGE_SELF, &now) == 0, "getrusage succeeds");
  return now;
}

StepFaults faults_so_far(Device device) {
  const rusage now = usage();
  return {memory_stats(device).system_allocations, now.ru_minflt + now.ru_majflt};
}

/// A training run that writes no files.
class Run {
 public:
  Run(const RunConfig& config, const Family& family, bool random_data)
      : task_(family.make_task(
            config, family.open_data(config, random_data ? DataUse::kSynthetic : DataUse::kTraining),
            make_initialised_model(family, config))),
        optimizer_(task_->model(), config.optim.adamw),
        train_step_(*task_, optimizer_, config),
        rates_(rates_of(config, length_of(config, task_->steps_per_epoch()))) {
    task_->seek(0, {});
  }

  const Task& task() const { return *task_; }
  /// Items of the last step.
  std::int64_t items() const { return items_; }
  const TrainStep& train_step() const { return train_step_; }

  /// Enqueues a step and checks the result of the previous one: as in training, the GPU never idles.
  void step() {
    items_ = train_step_.begin(step_, rates_.at(step_)).items;
    ++step_;
    while (train_step_.under_way() > 1) check_oldest();
  }
  /// Waits for all steps and checks their results.
  void finish() {
    while (train_step_.under_way() > 0) check_oldest();
  }

 private:
  void check_oldest() {
    const StepReport report = train_step_.finish();
    ++checked_;
    if (!report.skipped) return;
    throw NumericError(error_message(kStepBench, "step " + std::to_string(checked_), "a finite loss",
                                     std::to_string(report.loss), "lower optim.learning_rate"));
  }

  std::unique_ptr<Task> task_;
  AdamW optimizer_;
  TrainStep train_step_;
  StepRates rates_;
  std::int64_t step_ = 0, checked_ = 0, items_ = 0;
};

/// Runs the measured steps after the warm-up.
void measure(Run& run, StepBenchRecord& r) {
  const Device device = r.config.device;
  DeviceClock clock(device);
  const PhaseTimer phases(clock);
  std::vector<DeviceClock::Mark> bounds;
  const StepFaults before = faults_so_far(device);
  bounds.reserve(static_cast<std::size_t>(r.options.steps) + 1);
  bounds.push_back(clock.mark());
  for (std::int64_t i = 0; i < r.options.steps; ++i) {
    run.step();
    bounds.push_back(clock.mark());
  }
  run.finish();
  const StepFaults after = faults_so_far(device);
  r.faults = {after.system_allocations - before.system_allocations, after.page_faults - before.page_faults};
  r.memory = memory_stats(device);
  if (device != kCpu) r.held = cuda::held_bytes();
  r.graph_nodes = run.train_step().graph_nodes();
  r.graph_instantiation_ms = run.train_step().graph_instantiation_seconds() * 1e3;
  r.peak_rss_bytes = peak_process_memory();

  const auto ms_of_steps = [&](const auto& seconds) {
    std::vector<double> ms;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) ms.push_back(seconds(bounds[i], bounds[i + 1]) * 1e3);
    return ms;
  };
  const auto steps = ms_of_steps([&](auto begin, auto end) { return clock.seconds(begin, end); });
  r.step_ms = median(steps);
  r.step_ms_spread = relative_spread(steps);
  r.items_per_s = static_cast<double>(run.items()) / (r.step_ms * 1e-3);
  if (r.config.cuda_graph) return;
  r.phases.emplace();
  for (std::size_t i = 0; i < r.phases->size(); ++i) {
    const auto phase = static_cast<ProfilePhase>(i);
    (*r.phases)[i] =
        median(ms_of_steps([&](auto begin, auto end) { return phases.seconds(phase, begin, end); }));
  }
}

StepProfile profiled(Run& run, Device device, std::int64_t steps) {
  DeviceClock clock(device);
  Profiler profiler(clock);
  const DeviceClock::Mark begin = clock.mark();
  for (std::int64_t i = 0; i < steps; ++i) run.step();
  run.finish();
  const DeviceClock::Mark end = clock.mark();
  return summarize_profile(profiler.entries(), steps, clock.seconds(begin, end));
}

/// A step that is not timed comes first: while the device computes it, the host gets ahead.
KernelProfile by_kernel(Run& run, Device device, std::int64_t steps) {
  run.step();
  KernelProfile profile;
  {
    DeviceClock clock(device);
    Profiler profiler(clock);
    LaunchingOps ops(profiler);
    const cuda::LaunchTimer timer(clock, [&] { return ops.current(); });
    const DeviceClock::Mark begin = clock.mark();
    for (std::int64_t i = 0; i < steps; ++i) run.step();
    run.finish();
    const DeviceClock::Mark end = clock.mark();
    profile.step_ms = clock.seconds(begin, end) * 1e3 / static_cast<double>(steps);
    profile.kernels = summarize_launches(timer.launches(), ops, profiler.entries(), steps);
  }
  constexpr std::size_t kCaches = 4;  // a copy of so many caches is one of memory
  profile.copy_gbytes_per_s = measure_copy_rates(kCaches * cuda::cache_bytes(), device).stores;
  return profile;
}

}  // namespace

double StepProfile::other_ms() const {
  double rest = step_ms;
  for (const OpTime& op : ops) rest -= op.total_ms();
  return rest;
}

StepProfile summarize_profile(std::span<const ProfileEntry> entries, std::int64_t steps, double seconds) {
  const auto count = static_cast<double>(steps);
  std::map<std::string, OpTime> by_op;
  for (const ProfileEntry& entry : entries) {
    OpTime& op = by_op[entry.op];
    op.ms[static_cast<std::size_t>(entry.phase)] += entry.seconds * 1e3 / count;
    op.calls += static_cast<double>(entry.calls) / count;
    op.gflops += entry.flops / count;  // operations so far; divided by the total time below
  }
  StepProfile profile{seconds * 1e3 / count, {}};
  for (auto& [name, op] : by_op) {
    op.op = name;
    op.gflops = op.total_ms() > 0 ? op.gflops / op.total_ms() * 1e-6 : 0;
    profile.ops.push_back(op);
  }
  std::ranges::stable_sort(profile.ops, std::ranges::greater(), &OpTime::total_ms);
  return profile;
}

StepBenchRecord run_step_bench(const RunConfig& config, const Family& family,
                               const StepBenchOptions& options) {
  check(config, options);
  open_configured_device(config, NewProducts::kSearch);
  StepBenchRecord r{.config = config, .options = options};
  if (config.device != kCpu) r.gpu = cuda::describe_device();
  if (options.kernels) cuda::track_blocks();  // before there are any
  r.flops = step_flops(config, synthetic_tasks(family));
  reset_memory_peaks(config.device);
  {
    Run run(config, family, options.random_data);
    r.parameters = count_parameters(run.task().model());
    r.unit = run.task().unit().plural;
    r.sample_sizes = run.task().sample_sizes();
    for (std::int64_t i = 0; i < options.warmup; ++i) run.step();
    run.finish();
    MOH_CHECK(run.train_step().captured() == config.cuda_graph,
              "the step was captured exactly if cuda_graph is set");
    measure(run, r);
    if (options.profile) r.profile = profiled(run, config.device, options.steps);
    if (options.kernels) r.kernels = by_kernel(run, config.device, options.steps);
    if (config.device != kCpu) r.gemm_searches = gemm_searches();
  }
  if (!options.no_peaks) {  // last, as they allocate memory
    const MathModeScope mode(placement_of(config).math);
    r.ceilings = measure_ceilings(config.device, dtype_of(config.precision), config.tf32);
  }
  return r;
}

}  // namespace moh
