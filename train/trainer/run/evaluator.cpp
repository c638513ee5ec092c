#include "train/trainer/run/evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "train/base/io/durable_file.h"

namespace moh {

Evaluator::Evaluator(const RunParts& run, const TrainStep& train_step, TrainState& state)
    : task_(run.task),
      folder_(run.folder),
      console_(*run.console),
      processes_(run.processes),
      train_step_(train_step),
      state_(state) {}

void Evaluator::resume(double score) {
  evaluated_at_ = state_.step;
  score_ = score;
}

std::optional<StepEvaluation> Evaluator::run(FunctionRef<bool()> stop) {
  const double begin = monotonic_seconds();
  state_.evaluation_due = false;
  StatusLine line(console_);
  const std::string doing = "step " + std::to_string(state_.step) + ": evaluation";
  const std::unique_ptr<WeightsScope> weights = train_step_.evaluated_weights();
  const auto asked = [&](const EvaluationProgress& progress) {
    line.update([&] {
      return describe_progress(doing, progress.done, progress.total, task_.unit().plural, line.elapsed());
    });
    return is_stopped(stop);
  };
  StepEvaluation report;
  report.evaluation = task_.evaluate(asked, processes_);
  report.seconds = monotonic_seconds() - begin;
  if (!state_.evaluation_due) report.picture = draw_samples(line, stop);
  if (state_.evaluation_due) return std::nullopt;
  report.seconds_with_samples = monotonic_seconds() - begin;
  evaluated_at_ = state_.step;
  if (report.evaluation) add(report.evaluation->score);
  return report;
}

/// Writes a picture of what the model makes, and returns its path in the run folder; empty: none.
std::string Evaluator::draw_samples(StatusLine& line, FunctionRef<bool()> stop) {
  const std::string doing = "step " + std::to_string(state_.step) + ": samples";
  const std::optional<std::string> png = task_.draw_samples(
      [&](const EvaluationProgress& progress) {
        line.update(
            [&] { return describe_progress(doing, progress.done, progress.total, "steps", line.elapsed()); });
        return is_stopped(stop);
      },
      processes_);
  if (!png || png->empty() || !processes_.is_rank0()) return "";
  char name[40];
  std::snprintf(name, sizeof name, "step_%08lld.png", static_cast<long long>(state_.step));
  folder_.require_in_place();
  write_file_durably(folder_.make_samples_folder() / name, *png);
  return std::string("samples/") + name;
}

void Evaluator::add(double score) {
  score_ = score;
  if (!std::isfinite(score)) return;
  const double best = state_.best_score.value_or(score);
  state_.best_score = task_.score().higher_is_better ? std::max(best, score) : std::min(best, score);
}

std::optional<double> Evaluator::score_of_step() const {
  return has_evaluated(state_.step) && score_ && std::isfinite(*score_) ? score_ : std::nullopt;
}

}  // namespace moh
