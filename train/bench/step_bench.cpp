#include "train/bench/step_bench.h"

#include <sys/resource.h>

#include <cmath>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "train/bench/random_tokens.h"
#include "train/bench/statistics.h"
#include "train/metrics/progress.h"
#include "train/tasks/configured_device.h"
#include "train/tasks/llama_from_config.h"
#include "train/trainer/trainer.h"

namespace moh {

namespace {

void check(const StepBenchOptions& o) {
  const auto require = [](bool condition, std::string_view option, std::string_view expected, auto found) {
    if (!condition) throw ValueError(error_message("bench step", option, expected, std::to_string(found)));
  };
  require(o.steps >= 1, "steps", "1 or more", o.steps);
  require(o.warmup >= 0, "warmup", "0 or more", o.warmup);
}

rusage usage() {
  rusage now{};
  MOH_CHECK(getrusage(RUSAGE_SELF, &now) == 0, "getrusage knows this process");
  return now;
}

StepFaults faults_so_far() {
  const rusage now = usage();
  return {CpuAllocator::instance().stats().system_allocations, now.ru_minflt + now.ru_majflt};
}

LanguageData data_of(const RunConfig& config, bool random) {
  if (!random) return open_language_data(config.data, config.model.vocab_size);
  return random_language_data(config.model.vocab_size, static_cast<std::uint64_t>(config.seed));
}

/// A run of training without its files.
class Run {
 public:
  Run(const RunConfig& config, bool random_data)
      : config_(config),
        task_(config, data_of(config, random_data)),
        optimizer_(task_.model().parameters(), adamw_options_of(config.optim)),
        schedule_(lr_schedule_of(config)) {
    task_.seek(0);
  }

  const LlamaConfig& model_config() { return task_.llama().config(); }

  StepTimes step() {
    const StepReport report = train_step(task_, optimizer_, config_, step_, schedule_.at(step_));
    ++step_;
    if (!report.skipped) return report.seconds;
    throw NumericError(error_message("bench step", "step " + std::to_string(step_), "a finite loss",
                                     std::to_string(report.loss), "lower optim.learning_rate"));
  }

 private:
  const RunConfig& config_;
  LanguageModelTask task_;
  AdamW optimizer_;
  LrSchedule schedule_;
  std::int64_t step_ = 0;
};

/// A sample of one part of the steps' times, in milliseconds.
std::vector<double> milliseconds(const std::vector<StepTimes>& times, double StepTimes::*part) {
  std::vector<double> sample;
  for (const StepTimes& step : times) sample.push_back(step.*part * 1e3);
  return sample;
}

void fill_times(StepBenchRecord& r, const std::vector<StepTimes>& times) {
  const std::vector<double> steps = milliseconds(times, &StepTimes::total);
  r.step_ms = median(steps);
  r.step_ms_spread = relative_spread(steps);
  r.forward_ms = median(milliseconds(times, &StepTimes::forward));
  r.backward_ms = median(milliseconds(times, &StepTimes::backward));
  r.optimizer_ms = median(milliseconds(times, &StepTimes::optimizer));
  r.tokens_per_s = static_cast<double>(r.batch_size * r.accumulate * r.sequence_length) / (r.step_ms * 1e-3);
}

StepProfile profiled(Run& run, std::int64_t steps) {
  Profiler profiler(monotonic_seconds);
  double seconds = 0;
  for (std::int64_t i = 0; i < steps; ++i) seconds += run.step().total;
  return summarize_profile(profiler.entries(), steps, seconds);
}

StepBenchRecord description(const RunConfig& config, const StepBenchOptions& options) {
  StepBenchRecord r;
  r.dtype = dtype_name(dtype_of_precision(config.precision));
  r.isa = cpu_isa_name(cpu_isa());
  r.random_data = options.random_data;
  r.batch_size = config.train.batch_size;
  r.accumulate = config.train.accumulate;
  r.sequence_length = config.data.sequence_length;
  r.threads = num_threads();
  r.warmup = options.warmup;
  r.steps = options.steps;
  return r;
}

}  // namespace

StepBenchRecord run_step_bench(const RunConfig& config, const StepBenchOptions& options) {
  check(options);
  StepBenchRecord r = description(config, options);
  open_configured_device(config, NewProducts::kSearch);
  reset_memory_peaks(config.device);
  {
    Run run(config, options.random_data);
    r.parameters = count_parameters(run.model_config());
    // Of each micro-batch: its size decides which projections are computed by heads.
    const StepFlops flops = step_flops(run.model_config(), r.batch_size, r.sequence_length);
    const auto micro_batches = static_cast<double>(r.accumulate);
    r.flops = {micro_batches * flops.dense, micro_batches * flops.routed};
    std::vector<StepTimes> times(static_cast<std::size_t>(options.steps));  // no allocation between steps
    for (std::int64_t i = 0; i < options.warmup; ++i) run.step();
    const StepFaults before = faults_so_far();
    for (StepTimes& step : times) step = run.step();
    const StepFaults after = faults_so_far();
    r.faults = {after.system_allocations - before.system_allocations, after.page_faults - before.page_faults};
    r.memory = memory_stats(config.device);
    r.peak_rss_bytes = std::int64_t{usage().ru_maxrss} * 1024;
    fill_times(r, times);
    if (options.profile) r.profile = profiled(run, options.steps);
  }
  r.ceilings = measure_ceilings();  // last, as they take memory of their own
  return r;
}

}  // namespace moh
