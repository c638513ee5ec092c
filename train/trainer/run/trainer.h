#pragma once

#include <cstdint>
#include <string>

#include "train/base/log/progress.h"
#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/lr_schedule.h"
#include "train/trainer/run/evaluation_schedule.h"
#include "train/trainer/run/evaluator.h"
#include "train/trainer/run/guard.h"
#include "train/trainer/run/run_clock.h"
#include "train/trainer/run/run_log.h"
#include "train/trainer/run/run_parts.h"
#include "train/trainer/run/saver.h"
#include "train/trainer/run/step_times.h"
#include "train/trainer/run/train_step.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

/// How Trainer::run() ended.
struct TrainOutcome {
  bool finished = false;  ///< all steps are done; otherwise it stopped early with everything saved
  std::string reason;     ///< "finished", "stopped by SIGTERM", "stopped after 3600 s"
  RunSummary summary;
};

/// Trains a task: steps (TrainStep), and what is due after them: a line in the log (RunLog), an evaluation
/// (Evaluator), a checkpoint (Saver). Guard watches the numbers. What a step computes depends only on the
/// configuration, the parameters and the step's number, so that a run that was killed and resumed computes
/// the same as an uninterrupted one.
///
/// Each of several processes has a Trainer, which makes the same decisions as the others. A signal or the
/// time limit in one of them ends the run in all.
class Trainer {
 public:
  /// `resume_from` is a checkpoint whose parameters the task's model already has; null for a new run. The
  /// parts outlive this object. run.stop is checked before each step, on the CPU before each micro-batch of
  /// it, and before each batch of an evaluation. An interrupted step changes nothing. An interrupted
  /// evaluation is noted in the checkpoint (TrainState::evaluation_due), and the resumed run starts with it.
  Trainer(const RunParts& run, const StoredCheckpoint* resume_from);

  /// Runs to the last step, to a stop signal or to the time limit. Throws NumericError when the loss or the
  /// gradient is not finite and the guard says stop, StorageError when a checkpoint cannot be written or the
  /// folder is no longer there.
  TrainOutcome run();
  /// Destroys the graphs of captured steps, after run(), or after an error, which no step follows.
  void release_graphs() noexcept { train_step_.release_graphs(); }

 private:
  void resume(const StoredCheckpoint& checkpoint);
  void settle_average(bool resumed);
  void begin();
  TrainOutcome end();

  /// False if a signal interrupted the step.
  bool begin_step();
  /// Finishes steps, the oldest first, until so many are under way.
  void finish_steps(std::size_t left = 0);
  void finish_step();
  void do_what_is_due();
  void evaluate();
  void save();

  bool is_evaluated(std::int64_t step) const { return evaluations_.contains(step); }
  bool is_saved(std::int64_t step) const;
  /// Whether the host needs the result of this step before it enqueues the next one.
  bool is_awaited(std::int64_t step) const;
  bool is_finished() const { return state_.step >= length_.steps && !state_.evaluation_due; }
  bool stop_requested();
  std::string stop_reason();

  const RunConfig& config_;
  Task& task_;
  const StopSignal& stop_;
  Communicator& processes_;
  AdamW optimizer_;
  TrainStep train_step_;
  RunLength length_;
  EvaluationSchedule evaluations_;
  StepRates rates_;
  TrainState state_;  // after the last finished step
  RunClock clock_;
  Guard guard_;
  StepTimes times_;
  RunLog log_;
  Evaluator evaluator_;
  Saver saver_;
  std::int64_t begun_ = 0;  // number of begun steps: on a GPU, one more may be enqueued
  std::int64_t saved_at_ = -1;
  int stop_number_ = 0;  // of the signal that reached one of the processes
};

}  // namespace moh
