#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "train/base/log/console.h"

namespace moh {

/// Seconds on a monotonic clock.
double monotonic_seconds();

/// Progress of a long operation: on a terminal a line that is redrawn at most ten times a second; elsewhere a
/// new line every ten seconds.
class StatusLine {
 public:
  using Clock = std::function<double()>;

  /// `console` must outlive this object.
  explicit StatusLine(Console& console, Clock clock = monotonic_seconds);
  ~StatusLine() { finish(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Seconds since construction.
  double elapsed() const { return clock_() - start_; }
  /// Shows the result of `text` if an update is due, and in any case if this is the `last` call.
  void update(FunctionRef<std::string()> text, bool last = false);
  /// Clears the line.
  void finish() { console_.clear_status(); }

 private:
  Console& console_;
  Clock clock_;
  double pause_, start_, shown_;
};

/// Shows on stderr the progress of reading or writing files.
class ByteProgress {
 public:
  /// `doing` is the first word of the line, "converting".
  ByteProgress(std::string doing, std::uint64_t total_bytes);

  void add(std::uint64_t bytes);
  void finish() { line_.finish(); }

 private:
  std::string time_left() const;

  Console console_;
  std::string doing_;
  std::uint64_t total_, done_ = 0;
  StatusLine line_;
};

/// "eval: 12.3k of 65.5k tokens, 0:12 left": `done` of `total` items after `seconds`, in which those beyond
/// `before` were done.
std::string describe_progress(std::string_view doing, std::int64_t done, std::int64_t total,
                              std::string_view items, double seconds, std::int64_t before = 0);

/// The values shown after a training step. `step` counts the finished steps of the whole run.
struct StepProgress {
  std::int64_t step = 0;
  double loss = 0.0;
  double learning_rate = 0.0;
  double items_per_s = 0.0;
  std::string_view rate_unit = "tok/s";  ///< of items_per_s
  /// Further values of the task: a label ("heads") and a share, 0 to 1.
  std::vector<std::pair<std::string_view, double>> shares = {};
};

/// Progress of training: a bar on a terminal, elsewhere a line after each logged step.
class ProgressReporter {
 public:
  /// A run of `total_steps`, of which `first_step` were done before this process started (a resumed run).
  ProgressReporter(std::shared_ptr<Console> console, std::int64_t total_steps, std::int64_t first_step,
                   StatusLine::Clock clock = monotonic_seconds);

  /// Call after every step. Redraws the bar, at most ten times a second; no effect without a terminal.
  void update(const StepProgress& progress);
  /// Call after a step that is logged. Prints a line, on a terminal above the bar.
  void log(const StepProgress& progress);
  /// Clears the bar.
  void finish() { line_.finish(); }

  /// How many evaluations come after a step, and of how many steps each takes the time, as an estimate until
  /// one was measured.
  void expect_evaluations(std::function<std::int64_t(std::int64_t step)> count_after, double steps_each);
  /// An evaluation took so long.
  void add_evaluation(double seconds);

  /// Estimated seconds until the last step: from the average time per step since this process started,
  /// checkpoints included, without the first step where there are others, and from that of evaluations; -1
  /// before the first step.
  double remaining_seconds(std::int64_t step) const;

 private:
  void note_first_step(std::int64_t step);
  double seconds_per_step(std::int64_t done) const;

  std::shared_ptr<Console> console_;
  std::int64_t total_steps_;
  std::int64_t first_step_;
  StatusLine line_;
  std::function<std::int64_t(std::int64_t)> evaluations_after_;
  double steps_each_ = 0;
  std::int64_t evaluations_ = 0;   ///< that were measured
  double evaluation_seconds_ = 0;  ///< of these
  double first_step_seconds_ = 0;  ///< 0: not measured
};

/// The bar, at most `width` columns: fields that do not fit are left out, the least important first.
std::string progress_bar(const StepProgress& progress, std::int64_t total_steps, double remaining_seconds,
                         int width, const TerminalTraits& traits);
/// The progress as a line without bar.
std::string progress_line(const StepProgress& progress, std::int64_t total_steps, double remaining_seconds);

/// The summary that a run prints at its end. Fields without a value are not shown.
struct RunSummary {
  std::string outcome;  ///< "finished", or a reason such as "stopped by SIGTERM"
  std::int64_t step = 0;
  std::string items_name = "tokens";
  std::int64_t items = 0;  ///< processed by this process
  double elapsed_seconds = 0.0;
  std::optional<double> train_loss;
  std::string score_name = "loss";
  std::optional<double> validation_score;
  std::optional<double> best_validation_score;
  std::vector<std::pair<std::string, double>> shares = {};        ///< 0 ... 1, by name
  std::vector<std::pair<std::string, std::string>> remarks = {};  ///< (name, text)
  std::optional<std::int64_t> peak_memory_bytes;                  ///< of tensors, on the run's device
  std::optional<std::int64_t> peak_process_memory_bytes;          ///< of the whole process, in main memory
  std::string output_dir;
};

/// A line "name  value" for each field, with aligned values.
std::string format_summary(const RunSummary& summary);

}  // namespace moh
