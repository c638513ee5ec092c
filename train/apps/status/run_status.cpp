#include "train/apps/status/run_status.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/error.h"
#include "train/base/io/json_fault.h"
#include "train/base/io/run_lock.h"
#include "train/config/layers.h"
#include "train/config/number_text.h"

namespace moh {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// The last lines of a kind that metrics.jsonl has, unparsed.
struct LastRecords {
  std::string before, train, eval;  ///< `before`: the train record before `train`; empty if there is none
};

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "metrics.jsonl", ignored) || fs::exists(folder / ".lock", ignored);
}

LastRecords last_records(const fs::path& file) {
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(file, ignored);  // a pipe would be waited for
  std::ifstream lines;
  if (is_file) lines.open(file);
  if (!lines.is_open())
    throw DataError(error_message(file.string(), "", "a file that can be read", "that it cannot be opened"));
  LastRecords last;
  std::string line;
  while (std::getline(lines, line)) {
    if (lines.eof()) break;  // without a newline: it is being written
    if (line.starts_with(R"({"kind":"train")")) {
      last.before.swap(last.train);
      last.train = line;
    } else if (line.starts_with(R"({"kind":"eval")")) {
      last.eval = line;
    }
  }
  return last;
}

json parsed(const std::string& line, const fs::path& file) {
  json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (record.is_object() && record.contains("step") && record["step"].is_number_integer()) return record;
  throw DataError(error_message(
      file.string(), "", "records of moh, JSON objects with a step",
      record.is_discarded() ? find_json_fault(line).words(/*one_line=*/true) : "one without a step"));
}

std::optional<double> number(const json& record, std::string_view key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

/// The numbers among these keys that the record has.
std::vector<LastNumber> numbers(const json& record, std::initializer_list<const char*> keys) {
  std::vector<LastNumber> found;
  for (const char* key : keys)
    if (const std::optional<double> value = number(record, key)) found.push_back({key, *value});
  return found;
}

const config::Value* entry(const config::Value& map, std::string_view key) {
  const auto found = std::ranges::find(map.entries, key, &config::Entry::key);
  return found == map.entries.end() ? nullptr : &found->value;
}

/// The number at train.KEY of the run's resolved configuration; 0 if it has none.
std::int64_t train_key(const config::Layers& layers, std::string_view key) {
  if (layers.roots.empty()) return 0;
  const config::Value* const train = entry(layers.roots.back(), "train");
  const config::Value* const value = train == nullptr ? nullptr : entry(*train, key);
  return value == nullptr ? 0 : config::parse_integer(value->text).value_or(0);
}

/// The steps of the whole run: those of the configuration, or of its epochs by how many steps `record` says
/// that an epoch has. None where the configuration cannot be read.
std::optional<std::int64_t> steps_of(const fs::path& run, const json& record) {
  config::Layers layers;
  config::Problems problems;
  config::load_layers((run / "config.yaml").string(), {}, layers, problems);
  if (!problems.empty()) return std::nullopt;
  const std::int64_t epochs = train_key(layers, "epochs");
  if (epochs == 0) return train_key(layers, "steps");
  const std::optional<double> epoch = number(record, "epoch");
  if (!epoch || *epoch <= 0.0) return std::nullopt;
  return std::llround(static_cast<double>(epochs) * record["step"].get<double>() / *epoch);
}

/// The state by what the lock says of the process that trains, or else how far the run came.
std::string state_of(const fs::path& run, const RunStatus& status) {
  const std::optional<LockHolder> holder = lock_holder(run);
  if (holder && holder->is_here) return holder->is_alive ? "running" : "killed";
  if (holder) return "running on " + holder->host;
  if (status.steps && status.step >= *status.steps) return "finished";
  return status.step == 0 ? "not started" : "stopped";
}

void add_training(RunStatus& status, const LastRecords& last, const fs::path& metrics, double now) {
  const json record = parsed(last.train, metrics);
  status.step = record["step"];
  status.steps = steps_of(status.folder, record);
  status.training = numbers(record, {"loss", "tokens_per_s", "images_per_s"});
  const std::optional<double> written = number(record, "unix_time");
  if (!written) return;
  status.seconds_since = now - *written;
  if (last.before.empty() || !status.steps) return;
  const json before = parsed(last.before, metrics);
  const double steps = static_cast<double>(status.step) - before["step"].get<double>();
  const std::optional<double> earlier = number(before, "unix_time");
  if (!earlier || steps <= 0.0) return;
  status.seconds_left = static_cast<double>(*status.steps - status.step) * (*written - *earlier) / steps;
}

}  // namespace

std::vector<fs::path> run_folders(const fs::path& path) {
  if (is_run(path)) return {path};
  std::set<fs::path> runs;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (!at->is_directory(error) || !is_run(at->path())) continue;
    runs.insert(at->path());
    at.disable_recursion_pending();
  }
  if (error || runs.empty())
    throw DataError(error_message(path.string(), "", "the folder of a run, or one with runs in it",
                                  error ? error.message() : "no metrics.jsonl and no .lock below it"));
  return {runs.begin(), runs.end()};
}

RunStatus status_of(const fs::path& run, double now) {
  RunStatus status;
  status.folder = run;
  const fs::path metrics = run / "metrics.jsonl";
  if (std::error_code ignored; fs::exists(metrics, ignored)) {
    const LastRecords last = last_records(metrics);
    if (!last.train.empty()) add_training(status, last, metrics, now);
    if (!last.eval.empty()) {
      const json record = parsed(last.eval, metrics);
      status.validation = numbers(record, {"loss", "top1"});
      status.validated = record["step"];
    }
  }
  status.state = state_of(run, status);
  if (!status.state.starts_with("running")) status.seconds_left.reset();
  return status;
}

RunStatus status_or_unreadable(const fs::path& run) {
  using std::chrono::system_clock;
  try {
    return status_of(run, std::chrono::duration<double>(system_clock::now().time_since_epoch()).count());
  } catch (const std::exception&) {
    RunStatus status;
    status.folder = run;
    status.state = "unreadable";
    return status;
  }
}

}  // namespace moh
