#include "train/tools/bench/step_bench.h"

#include <sys/resource.h>

#include <cmath>

#include "autograd/profile.h"
#include "core/cpu_isa.h"
#include "core/cuda/backend.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "core/parallel.h"
#include "train/math/statistics.h"
#include "train/run/trainer.h"
#include "train/tasks/load_model.h"

namespace moh {

namespace {

void check(const RunConfig& config, const StepBenchOptions& o) {
  const auto require = [](bool condition, std::string_view option, std::string_view expected, auto found) {
    if (!condition) throw ValueError(error_message("bench step", option, expected, std::to_string(found)));
  };
  require(o.steps >= 1, "steps", "1 or more", o.steps);
  require(o.warmup >= 0, "warmup", "0 or more", o.warmup);
  if (!config.cuda_graph) return;
  // The rehearsals and the step that is captured are slower than those that are replayed.
  constexpr int kLeast = TrainStep::kRehearsals + 1;
  require(o.warmup >= kLeast, "warmup", std::to_string(kLeast) + " or more with cuda_graph", o.warmup);
  if (o.profile) {
    throw ValueError(error_message("bench step", "profile", "no cuda_graph, whose steps have no ops to time",
                                   "cuda_graph: true", "set cuda_graph=false"));
  }
}

rusage usage() {
  rusage now{};
  MOH_CHECK(getrusage(RUSAGE_SELF, &now) == 0, "getrusage knows this process");
  return now;
}

StepFaults faults_so_far(Device device) {
  const rusage now = usage();
  return {memory_stats(device).system_allocations, now.ru_minflt + now.ru_majflt};
}

/// A run of training without its files.
class Run {
 public:
  Run(const RunConfig& config, const Family& family, bool random_data)
      : task_(family.make_task(
            config, family.open_data(config, random_data ? DataUse::kSynthetic : DataUse::kTraining),
            make_initialised_model(family, config))),
        optimizer_(task_->model().parameters(), config.optim.adamw),
        train_step_(*task_, optimizer_, config),
        schedule_(lr_schedule_of(config)) {
    task_->seek(0);
  }

  const Task& task() const { return *task_; }
  /// Inputs of the last step.
  std::int64_t items() const { return items_; }
  bool captured() const { return train_step_.captured(); }

  /// Asks for a step, and looks at what the one before came to: as in training, a GPU always has work.
  void step() {
    items_ = train_step_.begin(step_, schedule_.at(step_)).items;
    ++step_;
    while (train_step_.under_way() > 1) check_oldest();
  }
  /// Looks at all steps.
  void finish() {
    while (train_step_.under_way() > 0) check_oldest();
  }

 private:
  void check_oldest() {
    const StepReport report = train_step_.finish();
    ++checked_;
    if (!report.skipped) return;
    throw NumericError(error_message("bench step", "step " + std::to_string(checked_), "a finite loss",
                                     std::to_string(report.loss), "lower optim.learning_rate"));
  }

  std::unique_ptr<Task> task_;
  AdamW optimizer_;
  TrainStep train_step_;
  LrSchedule schedule_;
  std::int64_t step_ = 0, checked_ = 0, items_ = 0;
};

/// Steps and the marks between them.
struct TimedSteps {
  explicit TimedSteps(Device device) : clock(device), phases(clock) {}

  void run(Run& run, std::int64_t steps) {
    bounds.reserve(static_cast<std::size_t>(steps) + 1);
    bounds.push_back(clock.mark());
    for (std::int64_t i = 0; i < steps; ++i) {
      run.step();
      bounds.push_back(clock.mark());
    }
    run.finish();
  }

  /// fn(begin, end) of each step, in seconds, as a sample in milliseconds.
  template <class Fn>
  std::vector<double> milliseconds(const Fn& fn) const {
    std::vector<double> sample;
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) sample.push_back(fn(bounds[i], bounds[i + 1]) * 1e3);
    return sample;
  }

  DeviceClock clock;
  PhaseTimer phases;
  std::vector<DeviceClock::Mark> bounds;
};

void fill_times(StepBenchRecord& r, const TimedSteps& times) {
  const std::vector<double> steps =
      times.milliseconds([&](auto begin, auto end) { return times.clock.seconds(begin, end); });
  r.step_ms = median(steps);
  r.step_ms_spread = relative_spread(steps);
  r.items_per_s = static_cast<double>(r.items) / (r.step_ms * 1e-3);
}

PhaseTimes phases_of(const TimedSteps& times) {
  const auto phase_ms = [&](ProfilePhase phase) {
    return median(
        times.milliseconds([&](auto begin, auto end) { return times.phases.seconds(phase, begin, end); }));
  };
  return {phase_ms(ProfilePhase::kForward), phase_ms(ProfilePhase::kBackward),
          phase_ms(ProfilePhase::kOptimizer)};
}

/// The counted steps of a run that is warm.
void measure(Run& run, Device device, StepBenchRecord& r) {
  TimedSteps times(device);
  const StepFaults before = faults_so_far(device);
  times.run(run, r.steps);
  const StepFaults after = faults_so_far(device);
  r.faults = {after.system_allocations - before.system_allocations, after.page_faults - before.page_faults};
  r.memory = memory_stats(device);
  r.peak_rss_bytes = std::int64_t{usage().ru_maxrss} * 1024;
  r.items = run.items();
  fill_times(r, times);
  if (!r.cuda_graph) r.phases = phases_of(times);
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

StepBenchRecord description(const RunConfig& config, const StepBenchOptions& options) {
  StepBenchRecord r;
  r.device = device_name(config.device);
  if (config.device != kCpu) r.gpu = cuda::describe_device();
  r.dtype = dtype_name(dtype_of(config.precision));
  r.isa = cpu_isa_name(cpu_isa());
  r.random_data = options.random_data;
  r.cuda_graph = config.cuda_graph;
  r.batch_size = config.train.batch_size;
  r.accumulate = config.train.accumulate;
  r.threads = num_threads();
  r.warmup = options.warmup;
  r.steps = options.steps;
  return r;
}

}  // namespace

StepBenchRecord run_step_bench(const RunConfig& config, const Family& family,
                               const StepBenchOptions& options) {
  check(config, options);
  open_configured_device(config, NewProducts::kSearch);
  StepBenchRecord r = description(config, options);
  r.flops = step_flops(config, synthetic_tasks(family));
  reset_memory_peaks(config.device);
  {
    Run run(config, family, options.random_data);
    r.parameters = count_parameters(run.task().model());
    r.unit = run.task().unit().plural;
    for (const auto& [name, size] : run.task().sample_sizes()) r.sample_sizes.emplace_back(name, size);
    for (std::int64_t i = 0; i < options.warmup; ++i) run.step();
    run.finish();
    MOH_CHECK(run.captured() == config.cuda_graph, "the steps of a run have one size");
    measure(run, config.device, r);
    if (options.profile) r.profile = profiled(run, config.device, options.steps);
  }
  const MathModeScope mode(placement_of(config).math);
  r.ceilings =
      measure_ceilings(config.device, dtype_of(config.precision));  // last, as they take memory of their own
  return r;
}

}  // namespace moh
