#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "train/base/log/progress.h"
#include "train/trainer/optim/weight_average.h"
#include "train/trainer/run/evaluation_schedule.h"
#include "train/trainer/run/evaluator.h"
#include "train/trainer/run/guard.h"
#include "train/trainer/run/metrics_writer.h"
#include "train/trainer/run/router_watch.h"
#include "train/trainer/run/run_clock.h"
#include "train/trainer/run/run_parts.h"
#include "train/trainer/run/step_times.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

/// The output of a run: records in metrics.jsonl, lines and a progress bar on the console, the summary at the
/// end. Rank 0 writes; step() is a collective.
class RunLog {
 public:
  /// `state` is that after the last finished step; `clock`, `times` and it outlive this object. Records after
  /// `resumed_from` are dropped, unless the run is new: -1.
  RunLog(const RunParts& run, const RunLength& length, const EvaluationSchedule& evaluations,
         TrainState& state, const RunClock& clock, StepTimes& times, std::int64_t resumed_from);

  /// A run goes on.
  void resumed();
  /// A step has finished: the progress bar, and in the steps of log.every a record and a line.
  void step(const StepReport& report);
  /// A step made no update. Throws NumericError if that ends the run.
  void skipped(const SkippedStep& step, const StepReport& report);
  /// By how much the selection of heads has changed since the last call, which the state keeps. Reads the
  /// parameters, in all processes.
  void selections();
  void evaluated(const StepEvaluation& report);
  /// Makes what was written durable.
  void sync();

  /// Clears the bar. The summary of a run that ends as `outcome` says; `average` may be null.
  RunSummary finish(std::string outcome, const Evaluator& evaluator, const WeightAverage* average);

 private:
  void find_peak(double seconds);
  std::optional<double> mfu() const;
  StepProgress progress_of(const StepReport& report) const;
  void write_step(const StepReport& report);
  void warn_of_collapse(const StepReport& report);
  void write(MetricRecord record);

  const RunConfig& config_;
  Task& task_;
  const RunFolder& folder_;
  TrainState& state_;
  const RunClock& clock_;
  StepTimes& times_;
  std::int64_t last_step_, items_before_;
  std::optional<MetricsWriter> metrics_;  // of the process that writes
  std::optional<double> peak_gflops_;     // of its device, where known
  double step_seconds_ = 0;               // of the steps so far
  ProgressReporter progress_;
  RouterWatch routers_;
  StepReport last_;
};

}  // namespace moh
