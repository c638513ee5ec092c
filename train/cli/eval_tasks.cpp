#include "train/cli/eval_tasks.h"

#include <unistd.h>
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/io/durable_file.h"
#include "train/log/format.h"
#include "train/log/logging.h"
#include "train/log/progress.h"
#include "train/run/stop_signal.h"
#include "train/tasks/language/language_family.h"
#include "train/tools/eval/benchmark_report.h"

namespace moh::cli {

namespace {

constexpr std::string_view kTasks = "tasks=", kData = "data=";

/// The names of tasks=[a,b], or tasks=a,b.
std::vector<std::string> names_of(std::string_view value) {
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  std::vector<std::string> names;
  for (std::string_view rest = value; !rest.empty();) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.emplace_back(name);
  }
  if (names.empty())
    throw ConfigError(error_message("tasks", "", "benchmarks, as in tasks=[sciq,piqa]", "none",
                                    "--list-tasks names those that there are"));
  return names;
}

/// What the command line says of benchmarks, and of the model.
struct Request {
  std::vector<std::string> tasks;
  std::string data;
  std::vector<std::string> settings;
};

Request request_of(const std::vector<std::string>& overrides) {
  Request request;
  for (const std::string& text : overrides) {
    if (text.starts_with(kTasks))
      request.tasks = names_of(std::string_view(text).substr(kTasks.size()));
    else if (text.starts_with(kData))
      request.data = text.substr(kData.size());
    else
      request.settings.push_back(text);
  }
  if (request.data.empty())
    throw ConfigError(
        error_message("eval", "data", "data=DIR, the folder of the benchmarks' files", "nothing"));
  return request;
}

void check(const EvalTasksArgs& args) {
  const auto at_least = [](const char* option, std::optional<std::int64_t> value, std::int64_t least) {
    if (value && *value < least)
      throw ConfigError(
          error_message(option, "", std::to_string(least) + " or more", std::to_string(*value)));
  };
  at_least("--limit", args.limit, 1);
  at_least("--shots", args.shots, 0);
  at_least("--new-tokens", args.new_tokens, 1);
  at_least("--batch-tokens", args.batch_tokens, 1);
}

BenchmarkOptions options_of(const Request& request, const EvalTasksArgs& args) {
  BenchmarkOptions options;
  options.items = {request.data, args.shots, args.limit.value_or(0), args.seed};
  options.limits.batch_tokens = args.batch_tokens;
  options.limits.cached_tokens = 8 * args.batch_tokens;
  options.new_tokens = args.new_tokens;
  return options;
}

/// Questions of a benchmark, by subject.
using Items = std::vector<std::vector<BenchmarkItem>>;

/// Those of all benchmarks, before the model is loaded: a missing file shows at once.
std::vector<Items> items_of(const std::vector<BenchmarkTask>& tasks, const BenchmarkOptions& options) {
  std::vector<Items> items;
  for (const BenchmarkTask& task : tasks)
    items.push_back(task.kind == BenchmarkKind::kGroup ? Items() : make_items(task, options.items));
  return items;
}

std::int64_t count_of(const std::vector<Items>& items) {
  std::int64_t count = 0;
  for (const Items& subjects : items) {
    for (const auto& subject : subjects) count += std::ssize(subject);
  }
  return count;
}

/// "eval: sciq, question 12 of 1000, 0:40 left", by the questions of all benchmarks.
std::string progress_text(const std::string& name, const BenchmarkProgress& progress, double before,
                          std::int64_t total, double seconds) {
  std::string text = "eval: " + name + ", question " +
                     std::to_string(static_cast<std::int64_t>(progress.done)) + " of " +
                     std::to_string(progress.total);
  const double done = before + progress.done;
  if (done > 0)
    text += ", " + format_duration(seconds * (static_cast<double>(total) - done) / done) + " left";
  return text;
}

/// Adds the averages of the groups, inner ones first, in the places where they were named: after their
/// members.
void add_averages(const std::vector<BenchmarkTask>& tasks, std::vector<BenchmarkResult>& results) {
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
    if (task->kind == BenchmarkKind::kGroup) results.push_back(average_of(*task, results));
  }
}

/// Runs all benchmarks; returns false if a signal stopped them.
bool run_all(const LanguageModel& model, const std::vector<BenchmarkTask>& tasks, std::vector<Items> items,
             const BenchmarkOptions& options, const StopSignal& stop, std::vector<BenchmarkResult>& results) {
  Console console(STDERR_FILENO);
  StatusLine line(console);
  const std::int64_t total = count_of(items);
  double before = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == BenchmarkKind::kGroup) continue;
    const auto show = [&](const BenchmarkProgress& progress) {
      line.update([&] { return progress_text(tasks[i].name, progress, before, total, line.elapsed()); });
      return stop.requested();
    };
    auto result = run_benchmark(model, tasks[i], std::move(items[i]), options, show);
    if (!result) return false;
    before += static_cast<double>(result->num_items());
    results.push_back(*std::move(result));
  }
  add_averages(tasks, results);
  return true;
}

}  // namespace

std::string EvalTasksArgs::first_given() const {
  const EvalTasksArgs usual;
  if (limit) return "--limit";
  if (shots) return "--shots";
  if (new_tokens) return "--new-tokens";
  if (batch_tokens != usual.batch_tokens) return "--batch-tokens";
  if (seed != usual.seed) return "--seed";
  return samples.empty() ? "" : "--samples";
}

bool asks_for_tasks(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(overrides, [](const std::string& text) { return text.starts_with(kTasks); });
}

int eval_tasks(const std::string& checkpoint, const std::vector<std::string>& overrides,
               const EvalTasksArgs& args, bool json, const Families& families) {
  check(args);
  const Request request = request_of(overrides);
  StopSignal stop;
  const BenchmarkOptions options = options_of(request, args);
  const std::vector<BenchmarkTask> tasks = find_benchmarks(request.tasks);
  std::vector<Items> items = items_of(tasks, options);
  // A place that cannot be written shows at once, too.
  if (!args.samples.empty()) write_file_durably(args.samples, "");
  const LoadedModel loaded = load_model(checkpoint, families, request.settings);
  set_num_threads(loaded.config.threads);
  const LanguageModel model = as_language_model(loaded, "eval tasks");
  stop.defer();
  BenchmarkReport report{.checkpoint = loaded.path.string(),
                         .model = loaded.family->weight_names().describe(*loaded.config.family),
                         .seed = args.seed,
                         .limit = args.limit.value_or(0)};
  report.complete = run_all(model, tasks, std::move(items), options, stop, report.results);
  if (!args.samples.empty()) write_samples(args.samples, report);
  if (json)
    write_json_line(std::cout, report);
  else
    write_table(std::cout, report);
  if (report.complete) return kDone;
  log_info("eval: stopped by " + std::string(stop.name()) + "; " + std::to_string(report.results.size()) +
           " benchmarks were finished");
  return kInterrupted;
}

}  // namespace moh::cli
