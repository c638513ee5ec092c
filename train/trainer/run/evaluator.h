#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/function_ref.h"
#include "train/base/log/progress.h"
#include "train/trainer/run/run_parts.h"
#include "train/trainer/run/train_step.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

/// The result of an evaluation in the course of a run.
struct StepEvaluation {
  std::optional<Evaluation> evaluation;  ///< nothing: there are no held-out data
  std::string picture;                   ///< of what the model makes, in the run folder; empty: none
  double seconds = 0;                    ///< of the evaluation alone
  double seconds_with_samples = 0;
};

/// Evaluates the weights of a run, or their moving average, after a step, and keeps the scores: of all
/// evaluations the best one is part of the state.
class Evaluator {
 public:
  /// `state` is that after the last finished step. The arguments outlive this object.
  Evaluator(const RunParts& run, const TrainStep& train_step, TrainState& state);

  /// Resumes a run after a step whose checkpoint has this score.
  void resume(double score);
  bool has_evaluated(std::int64_t step) const { return evaluated_at_ == step; }
  /// Evaluates, and has the task draw samples; nothing if `stop` returned true, and then the state says that
  /// an evaluation is due. A collective: `stop` returns the same in all processes.
  std::optional<StepEvaluation> run(FunctionRef<bool()> stop);

  std::optional<double> last_score() const { return score_; }
  /// The score of the state's step, if it has a finite one.
  std::optional<double> score_of_step() const;

 private:
  bool is_stopped(FunctionRef<bool()> stop) { return state_.evaluation_due = stop(); }
  std::string draw_samples(StatusLine& line, FunctionRef<bool()> stop);
  void add(double score);

  Task& task_;
  const RunFolder& folder_;
  Console& console_;
  Communicator& processes_;
  const TrainStep& train_step_;
  TrainState& state_;
  std::int64_t evaluated_at_ = -1;
  std::optional<double> score_;  // of the last evaluation that had one
};

}  // namespace moh
