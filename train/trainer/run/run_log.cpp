#include "train/trainer/run/run_log.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "core/error.h"
#include "core/process_memory.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/base/measure/ceilings.h"

namespace moh {

namespace {

/// Wall-clock time since 1970-01-01 UTC, to the millisecond.
double unix_seconds() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<milliseconds>(now).count()) / 1000;
}

/// "activated heads" for activated_heads.
std::string in_words(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

/// Adds the scores of an evaluation to a record, and returns them as text.
std::string add_scores(MetricRecord& record, const Evaluation& evaluation, const Task& task) {
  const std::string_view score = task.score().name;
  record.add(score, evaluation.score);
  std::string text = std::string(score) + " " + format_significant(evaluation.score);
  for (const auto& [name, value] : evaluation.metrics) {
    record.add(name, value);
    text += ", " + name + " " + format_significant(value);
  }
  if (evaluation.held_out == 0) return text;
  record.add("evaluated", evaluation.evaluated).add("held_out", evaluation.held_out);
  return text + " (" + std::to_string(evaluation.evaluated) + " of " + std::to_string(evaluation.held_out) +
         " " + std::string(task.unit().plural) + ")";
}

using Remarks = std::vector<std::pair<std::string, std::string>>;

/// The average of a short run consists of its first weights.
void add_remark_on(const WeightAverage& average, std::int64_t steps, Remarks& remarks) {
  constexpr double kMuch = 0.01;
  const double share = average.decay().share_of_first(steps);
  if (share < kMuch) return;
  remarks.emplace_back("moving average",
                       format_fixed(100 * share, 0) +
                           "% of it are still the initial weights: lower ema.decay, or set ema.warmup: true");
}

}  // namespace

RunLog::RunLog(const RunParts& run, const RunLength& length, const EvaluationSchedule& evaluations,
               TrainState& state, const RunClock& clock, StepTimes& times, std::int64_t resumed_from)
    : config_(run.config),
      task_(run.task),
      folder_(run.folder),
      state_(state),
      clock_(clock),
      times_(times),
      last_step_(length.steps),
      items_before_(state.items),
      progress_(run.console, length.steps, state.step),
      routers_(run.task) {
  // A forward pass takes a third of a pass forward and backward. An evaluation of a step follows its line.
  const auto step_samples = static_cast<double>(config_.train.batch_size * config_.train.accumulate);
  progress_.expect_evaluations([evaluations](std::int64_t step) { return evaluations.count_after(step - 1); },
                               task_.evaluation_samples() / (3 * step_samples));
  if (!run.processes.is_rank0()) return;
  metrics_.emplace(config_.output.dir / "metrics.jsonl", resumed_from, state.evaluation_due);
  metrics_->set_listener(run.listener);
  if (config_.log.tensorboard) metrics_->show_in_tensorboard(config_.output.dir / TensorBoardFile::kName);
}

void RunLog::resumed() {
  write(MetricRecord("event", state_.step).add("event", "resume"));
}

void RunLog::step(const StepReport& report) {
  last_ = report;
  find_peak(report.seconds);
  progress_.update(progress_of(report));
  const std::int64_t every = config_.log.every;
  const bool is_due = every > 0 && state_.step % every == 0;
  if (is_due || state_.step == 1 || state_.step == last_step_) write_step(report);
}

/// Finds the peak rate once steps have taken a second: a run that is over before would wait for the
/// measurement.
void RunLog::find_peak(double seconds) {
  constexpr double kLong = 1;
  const bool was_long = step_seconds_ >= kLong;
  step_seconds_ += seconds;
  if (was_long || step_seconds_ < kLong || !metrics_) return;
  peak_gflops_ = peak_gflops(config_.device, dtype_of(config_.precision), config_.tf32);
}

/// Model FLOP utilisation of the steps since the last line: the share of the peak rate of this process's
/// device.
std::optional<double> RunLog::mfu() const {
  const double rate = times_.flops_per_second();
  if (!peak_gflops_ || rate == 0) return std::nullopt;
  return rate / (*peak_gflops_ * 1e9);
}

StepProgress RunLog::progress_of(const StepReport& report) const {
  StepProgress progress{state_.step, report.loss, report.learning_rate, times_.items_per_second(),
                        task_.unit().per_second};
  for (const NamedScalar& scalar : report.statistics.scalars) {
    if (!scalar.label.empty()) progress.shares.emplace_back(scalar.label, scalar.value);
  }
  if (const std::optional<double> share = mfu()) progress.shares.emplace_back("mfu", *share);
  return progress;
}

void RunLog::write_step(const StepReport& report) {
  const StepProgress progress = progress_of(report);
  const StepStatistics& statistics = report.statistics;
  MetricRecord record("train", state_.step);
  record.add("loss", report.loss)
      .add("learning_rate", report.learning_rate)
      .add("grad_norm", report.gradient_norm);
  for (const NamedScalar& scalar : statistics.scalars) record.add(scalar.name, scalar.value);
  for (const auto& [name, lists] : statistics.rows) record.add(name, lists);
  for (const auto& [name, numbers] : statistics.layers) record.add(name, numbers);
  if (const std::int64_t epoch = task_.steps_per_epoch(); epoch > 0)
    record.add("epoch", static_cast<double>(state_.step) / static_cast<double>(epoch));
  const std::string_view items = task_.unit().plural;
  record.add(items, state_.items);
  if (const std::optional<double> share = mfu()) record.add("mfu", *share);
  times_.take_into(record, items);
  record.add("elapsed_s", clock_.seconds_of_run())
      .add("peak_memory_bytes", memory_stats(config_.device).total.peak_bytes)
      .add("peak_process_memory_bytes", peak_process_memory());
  write(record);
  progress_.log(progress);
  warn_of_collapse(report);
}

void RunLog::warn_of_collapse(const StepReport& report) {
  const std::vector<std::int64_t> layers = routers_.newly_collapsed(report.statistics);
  if (layers.empty()) return;
  std::string list;
  for (const std::int64_t layer : layers) list += (list.empty() ? "" : ", ") + std::to_string(layer);
  write(MetricRecord("event", state_.step).add("event", "router_collapse").add("layers", list));
  log_warning("step " + std::to_string(state_.step) + ": the routers of layers " + list +
              " have collapsed: half or more of the heads that could be spared get almost no token. Raise "
              "model.moh.balance_weight, or lower optim.learning_rate");
}

void RunLog::skipped(const SkippedStep& step, const StepReport& report) {
  write(MetricRecord("event", state_.step)
            .add("event", step.event)
            .add("loss", report.loss)
            .add("grad_norm", report.gradient_norm));
  if (!step.ends_run) return log_warning(step.message);
  sync();
  throw NumericError("train: " + step.message);
}

void RunLog::selections() {
  if (!routers_.has_routers()) return;
  const std::vector<std::optional<double>> churn = routers_.churn(state_.selections);
  const auto has = [](const std::optional<double>& share) { return share.has_value(); };
  if (std::ranges::any_of(churn, has)) write(MetricRecord("router", state_.step).add("churn", churn));
}

void RunLog::evaluated(const StepEvaluation& report) {
  progress_.add_evaluation(report.seconds_with_samples);
  if (!report.evaluation && report.picture.empty()) return;
  MetricRecord record("eval", state_.step);
  std::string line = "step " + std::to_string(state_.step) + ":";
  if (report.evaluation) line += " validation " + add_scores(record, *report.evaluation, task_);
  if (!report.picture.empty()) {
    record.add("picture", report.picture);
    line += (report.evaluation ? "; " : " ") + report.picture;
  }
  write(record.add("elapsed_s", report.seconds));
  log_info(line);
}

void RunLog::write(MetricRecord record) {
  if (!metrics_) return;
  folder_.require_in_place();
  metrics_->write(record.add("unix_time", unix_seconds()));
}

void RunLog::sync() {
  if (!metrics_) return;
  folder_.require_in_place();
  metrics_->sync();
}

RunSummary RunLog::finish(std::string outcome, const Evaluator& evaluator, const WeightAverage* average) {
  progress_.finish();
  RunSummary summary;
  summary.outcome = std::move(outcome);
  summary.step = state_.step;
  summary.items_name = task_.unit().plural;
  summary.items = state_.items - items_before_;
  summary.elapsed_seconds = clock_.seconds();
  if (summary.items > 0) summary.train_loss = last_.loss;
  summary.score_name = task_.score().name;
  summary.validation_score = evaluator.last_score();
  summary.best_validation_score = state_.best_score;
  for (const NamedScalar& scalar : last_.statistics.scalars) {
    if (!scalar.label.empty()) summary.shares.emplace_back(in_words(scalar.name), scalar.value);
  }
  summary.peak_memory_bytes = memory_stats(config_.device).total.peak_bytes;
  summary.peak_process_memory_bytes = peak_process_memory();
  summary.remarks = task_.remarks();
  if (average != nullptr) add_remark_on(*average, state_.step, summary.remarks);
  summary.output_dir = config_.output.dir.string();
  return summary;
}

}  // namespace moh
