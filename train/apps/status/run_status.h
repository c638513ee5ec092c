#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace moh {

/// A number of the last record of a kind: its key in metrics.jsonl and its value.
struct LastNumber {
  std::string key;
  double value = 0.0;
};

/// A run's state by its folder. Nothing in the folder is opened for writing or locked, so that
/// looking at a run cannot disturb it.
struct RunStatus {
  std::filesystem::path folder;
  std::string state;      ///< "running", "running on HOST", "finished", "stopped", "killed", "not started"
  std::int64_t step = 0;  ///< the last one with a record
  std::optional<std::int64_t> steps;      ///< of the whole run; none if the configuration does not say
  std::optional<double> seconds_left;     ///< of a running one, at the speed of its last two records
  std::optional<double> seconds_since;    ///< the last record
  std::vector<LastNumber> training;       ///< loss and items per second of the last train record
  std::vector<LastNumber> validation;     ///< loss, and top1 where there is one, of the last eval record
  std::optional<std::int64_t> validated;  ///< the step of that record
};

/// The run that lies at `path`, or else those below it, in the order of their names: folders with a
/// metrics.jsonl or a `.lock`. Throws DataError if there is none.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& path);

/// Reads metrics.jsonl once, whatever its length, and config.yaml. `now`: seconds since 1970 UTC. Throws
/// DataError for a metrics.jsonl that cannot be read or has a record that is no JSON object.
RunStatus status_of(const std::filesystem::path& run, double now);
/// status_of() of this moment for views of many runs: the state of a run of which it cannot be told is
/// "unreadable".
RunStatus status_or_unreadable(const std::filesystem::path& run);

}  // namespace moh
