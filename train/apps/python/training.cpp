#include "train/apps/python/training.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/keep_freed_memory.h"
#include "core/parallel.h"
#include "train/apps/python/interruption.h"
#include "train/apps/python/logging.h"
#include "train/comm/communicator.h"
#include "train/comm/launcher.h"
#include "train/families/families.h"
#include "train/trainer/run/start_run.h"
#include "train/trainer/run/training_config.h"

namespace moh::python {

namespace nb = nanobind;

namespace {

/// A training as Python orders it: a file, or the text of one that is not there, and how the run starts.
struct TrainingOrder {
  std::string name;
  std::optional<std::string> text;
  std::vector<std::string> overrides;
  StartOptions start;
  bool quiet = false;
};

/// The number of threads of this process, as it was before a run took its own.
class ThreadsBefore {
 public:
  ThreadsBefore() = default;
  ~ThreadsBefore() { set_num_threads(count_); }
  ThreadsBefore(const ThreadsBefore&) = delete;
  ThreadsBefore& operator=(const ThreadsBefore&) = delete;

 private:
  int count_ = num_threads();
};

/// Tells Python of the records of a run, and asks it whether the run goes on.
class Listener {
 public:
  explicit Listener(nb::handle callback) : callback_(callback) {}

  void tell(std::string_view record) {
    interruption_.call([&] {
      if (callback_(record).is(nb::bool_(false))) ends_ = true;
    });
  }
  int stop() {
    if (interruption_.requested()) return SIGINT;
    return ends_ ? StopSignal::kRequest : 0;
  }
  /// Throws what ended the run.
  void rethrow() const { interruption_.rethrow(); }

 private:
  nb::handle callback_;
  Interruption interruption_;
  bool ends_ = false;
};

void require_one_process() {
  const Launch launch = detect_launch();
  if (launch.size == 1) return;
  throw ConfigError(error_message("moh.train", "", "one process",
                                  std::to_string(launch.size) + " of " + std::string(launch.launcher),
                                  "the command `moh train` trains in several"));
}

TrainOutcome run(const TrainingOrder& order, Listener& listener) {
  const nb::gil_scoped_release released;
  require_one_process();
  keep_freed_memory();
  const ThreadsBefore threads;
  constexpr int kNowhere = -1;
  const auto console = std::make_shared<Console>(order.quiet ? kNowhere : STDOUT_FILENO);
  const RunLogging logging(console);
  const FamilyConfigs known = families().configs();
  RunFile file = order.text ? RunFile::of_text(order.name, *order.text, known, order.overrides)
                            : RunFile(order.name, order.overrides, known);
  RunFolder folder;
  StopSignal stop(StopSignal::Asked{[&] { return listener.stop(); }});
  const auto tell = [&](std::string_view record) { listener.tell(record); };
  return start_run(training_config(std::move(file), order.start, families()), order.start,
                   {families(), folder, stop, console, one_process(), tell});
}

/// The summary of a run without its records.
nb::dict summary_of(const TrainOutcome& outcome) {
  const RunSummary& summary = outcome.summary;
  nb::dict result;
  result["finished"] = outcome.finished;
  result["outcome"] = summary.outcome;
  result["step"] = summary.step;
  result["score_name"] = summary.score_name;
  result["score"] = summary.validation_score;
  result["best_score"] = summary.best_validation_score;
  result["elapsed_seconds"] = summary.elapsed_seconds;
  result["folder"] = summary.output_dir;
  return result;
}

nb::dict train(const std::string& name, const std::optional<std::string>& text,
               const std::vector<std::string>& overrides, nb::handle callback, bool resume,
               const std::string& resume_from, bool overwrite, bool allow_older, bool allow_changes,
               bool quiet) {
  if (resume && overwrite) throw ConfigError(error_message("moh.train", "", "resume or overwrite", "both"));
  const StartOptions start{.config_file = name,
                           .resume = resume,
                           .resume_from = resume_from,
                           .overwrite = overwrite,
                           .allow_older = allow_older,
                           .allow_changes = allow_changes};
  const TrainingOrder order{name, text, overrides, start, quiet};
  Listener listener(callback);
  try {
    const TrainOutcome outcome = run(order, listener);
    listener.rethrow();
    return summary_of(outcome);
  } catch (const StoppedEarly&) {
    listener.rethrow();
    throw;
  }
}

}  // namespace

void add_training(nb::module_& module) {
  module.def("train", &train);
}

}  // namespace moh::python
