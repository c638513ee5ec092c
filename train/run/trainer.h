#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "train/checkpoint/background_save.h"
#include "train/checkpoint/checkpoint_store.h"
#include "train/checkpoint/train_state.h"
#include "train/config/run_config.h"
#include "train/log/console.h"
#include "train/log/progress.h"
#include "train/optim/adamw.h"
#include "train/optim/lr_schedule.h"
#include "train/run/divided_save.h"
#include "train/run/evaluation_schedule.h"
#include "train/run/metrics_writer.h"
#include "train/run/router_watch.h"
#include "train/run/run_folder.h"
#include "train/run/spike_guard.h"
#include "train/run/step_trace.h"
#include "train/run/stop_signal.h"
#include "train/run/train_step.h"
#include "train/tasks/task.h"

namespace moh {

/// How Trainer::run() ended.
struct TrainOutcome {
  bool finished = false;  ///< all steps are done; otherwise it stopped early with everything saved
  std::string reason;     ///< "finished", "stopped by SIGTERM", "stopped after 3600 s"
  RunSummary summary;
};

/// Trains a task: forward, backward, clip, update, log, evaluate, checkpoint. What a step computes depends
/// only on the configuration, the parameters and the step's number, so that a run that was killed and resumed
/// computes the same as an uninterrupted one.
class Trainer {
 public:
  /// `resume_from` is a checkpoint whose parameters the task's model already has; null for a new run.
  /// `folder` is that of `checkpoints`. `stop` is checked before each micro-batch of a step and each batch of
  /// an evaluation. An interrupted step changes nothing. An interrupted evaluation is noted in the checkpoint
  /// (TrainState::evaluation_due), and the resumed run starts with it.
  ///
  /// Of several processes each has a Trainer; the first writes the files, and the others need no open folder
  /// and no checkpoints. What ends a run in one of them, a signal or the time limit, ends it in all.
  Trainer(const RunConfig& config, Task& task, const RunFolder& folder, CheckpointStore* checkpoints,
          const StopSignal& stop, std::shared_ptr<Console> console, const StoredCheckpoint* resume_from,
          Communicator& processes = one_process());

  /// Runs to the last step, to a stop signal or to the time limit. Throws NumericError when the loss or the
  /// gradient is not finite and the guard says stop, StorageError when a checkpoint cannot be written or the
  /// folder is no longer there.
  TrainOutcome run();
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

 private:
  void resume(const StoredCheckpoint& checkpoint);
  bool is_finished() const;
  bool is_last(std::int64_t step) const { return step == length_.steps; }
  bool is_evaluated(std::int64_t step) const { return evaluations_.contains(step); }
  bool is_saved(std::int64_t step) const;
  /// Whether something after this step (logging, evaluation, checkpoint) needs its result on the host.
  bool needs_sync(std::int64_t step) const;
  /// False if a signal interrupted the step.
  bool begin_step();
  void finish_step();
  StepProgress progress_of(const StepReport& report) const;
  void guard(const StepReport& report);
  void guard_spike(const std::string& what);
  void log(const StepReport& report);
  bool is_traced(std::int64_t step) const;
  void end_traced_step();
  void write_trace();
  void add_comm_numbers(MetricRecord& record, double own_seconds, double waited);
  void warn_of_collapse(const StepReport& report);
  void watch_routers();
  void after_sync();
  void write(MetricRecord record);
  void evaluate();
  void evaluate_resumed();
  std::string draw_samples(StatusLine& line);
  void report(const std::optional<Evaluation>& evaluation, double seconds, const std::string& picture);
  std::string add_scores(const Evaluation& evaluation, MetricRecord& record);
  void save_checkpoint();
  bool saves_beside_steps() const { return config_.checkpoint.asynchronous && config_.device == kCpu; }
  void save_divided(CheckpointContents contents);
  void complete(CheckpointContents& contents) const;
  void finish_save(FunctionRef<std::filesystem::path()> save);
  /// Before anything changes that a checkpoint under way is written from.
  void wait_for_checkpoint();
  bool stop_requested();
  std::string stop_reason();
  TrainOutcome finish(std::string reason);
  void settle_average(bool resumed);
  std::vector<std::pair<std::string, std::string>> remarks() const;

  RunConfig config_;
  Task& task_;
  const RunFolder& folder_;
  CheckpointStore* checkpoints_;
  std::unique_ptr<BackgroundSave> saving_;       // null where the training waits, or the state is divided
  std::unique_ptr<DividedSave> divided_saving_;  // of a divided state
  std::int64_t saving_step_ = -1;                // of the last save
  const StopSignal& stop_;
  Communicator& processes_;
  std::shared_ptr<Console> console_;
  AdamW optimizer_;
  RunConfig divided_;  // its micro-batches are those of the processes
  TrainStep train_step_;
  RunLength length_;
  EvaluationSchedule evaluations_;
  StepRates rates_;
  TrainState state_;  // after the last finished step
  SpikeGuard spike_;
  std::int64_t begun_ = 0;                // number of begun steps: on a GPU, one more may be enqueued
  std::optional<MetricsWriter> metrics_;  // of the process that writes
  ProgressReporter progress_;
  std::optional<StepTrace> trace_;
  std::atomic<bool> in_step_ = false;
  std::atomic<double> collective_seconds_ = 0;  // of the steps since the last log line
  std::int64_t logged_at_ = 0;                  // step
  RouterWatch routers_;

  double started_ = 0;         // of this process's training, in monotonic seconds
  double elapsed_before_ = 0;  // of earlier processes of the run
  std::int64_t items_before_ = 0;
  double step_seconds_ = 0;      // time of the steps since the last log line
  double comm_seconds_ = 0;      // thereof, waiting for other processes
  double data_seconds_ = 0;      // thereof, waiting for data
  std::int64_t step_items_ = 0;  // items of those steps
  std::int64_t evaluated_at_ = -1, saved_at_ = -1;
  StepReport last_;
  std::optional<double> validation_score_;
  int stop_number_ = 0;  // of the signal that reached one of the processes
};

}  // namespace moh
