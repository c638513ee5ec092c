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
#include "train/log/console.h"

namespace moh {

/// Seconds on a clock that never jumps.
double monotonic_seconds();

/// Shows how far a long piece of work is: on a terminal a line that is drawn over, at most ten times a
/// second; elsewhere a line every ten seconds.
class StatusLine {
 public:
  using Clock = std::function<double()>;

  /// `console` must live as long.
  explicit StatusLine(Console& console, Clock clock = monotonic_seconds);
  ~StatusLine() { finish(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Seconds since the work began.
  double elapsed() const { return clock_() - start_; }
  /// Shows what `text` returns when it is time to; `last` means that there is no later call.
  void update(FunctionRef<std::string()> text, bool last = false);
  /// Takes the line away.
  void finish() { console_.clear_status(); }

 private:
  Console& console_;
  Clock clock_;
  double pause_, start_, shown_;
};

/// Shows on stderr how far a long pass over a file is.
class ByteProgress {
 public:
  /// `doing` is the verb in front, "converting".
  ByteProgress(std::string doing, std::uint64_t total_bytes);

  void add(std::uint64_t bytes);
  void finish() { line_.finish(); }

 private:
  Console console_;
  std::string doing_;
  std::uint64_t total_, done_ = 0;
  StatusLine line_;
};

/// "eval: 12.3k of 65.5k tokens, 0:12 left": `done` of `total` items after `seconds`.
std::string describe_progress(std::string_view doing, std::int64_t done, std::int64_t total,
                              std::string_view items, double seconds);

/// What one training step shows. `step` counts finished steps of the whole run.
struct StepProgress {
  std::int64_t step = 0;
  double loss = 0.0;
  double learning_rate = 0.0;
  double items_per_s = 0.0;
  std::string_view rate_unit = "tok/s";  ///< of items_per_s
  /// What else the task shows: a share, 0 ... 1, behind its label ("heads").
  std::vector<std::pair<std::string_view, double>> shares = {};
};

/// Shows how far training is: a bar on a terminal, a line now and then elsewhere.
class ProgressReporter {
 public:
  /// A run of `total_steps`, `first_step` of them done before (a resumed run).
  ProgressReporter(std::shared_ptr<Console> console, std::int64_t total_steps, std::int64_t first_step,
                   StatusLine::Clock clock = monotonic_seconds);

  /// After every step. Redraws the bar, at most ten times a second; nothing when not on a terminal.
  void update(const StepProgress& progress);
  /// After a step that is logged. Prints a line, on a terminal above the bar.
  void log(const StepProgress& progress);
  /// Takes the bar away.
  void finish() { line_.finish(); }

  /// Seconds until the last step at the average pace since this process began, evaluations and checkpoints
  /// included; -1 before the first step.
  double remaining_seconds(std::int64_t step) const;

 private:
  std::shared_ptr<Console> console_;
  std::int64_t total_steps_;
  std::int64_t first_step_;
  StatusLine line_;
};

/// The bar, at most `width` columns: fields that do not fit are left out, the least important first.
std::string progress_bar(const StepProgress& progress, std::int64_t total_steps, double remaining_seconds,
                         int width, const TerminalTraits& traits);
/// The same as a plain line.
std::string progress_line(const StepProgress& progress, std::int64_t total_steps, double remaining_seconds);

/// What a finished run leaves on the screen. Fields without a value are not shown.
struct RunSummary {
  std::string outcome;  ///< "finished" or, say, "stopped by SIGTERM"
  std::int64_t step = 0;
  std::string items_name = "tokens";
  std::int64_t items = 0;  ///< seen by this process
  double elapsed_seconds = 0.0;
  std::optional<double> train_loss;
  std::string score_name = "loss";
  std::optional<double> validation_score;
  std::optional<double> best_validation_score;
  std::vector<std::pair<std::string, double>> shares = {};  ///< 0 ... 1, by name
  std::optional<std::int64_t> peak_memory_bytes;            ///< of tensors, on the run's device
  std::optional<std::int64_t> peak_process_memory_bytes;    ///< of the whole process, in main memory
  std::string output_dir;
};

/// One "name  value" line per field, names aligned.
std::string format_summary(const RunSummary& summary);

}  // namespace moh
