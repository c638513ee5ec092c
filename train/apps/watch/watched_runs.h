#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/threads.h"
#include "train/apps/status/run_status.h"
#include "train/apps/watch/run_data.h"
#include "train/apps/watch/run_settings.h"

namespace moh::watch {

/// A run as it is listed, without its numbers.
struct ListedRun {
  int id = 0;        ///< stays the same
  RunStatus status;  ///< state "" until it was looked at
  RunKind kind;
};

/// The runs in some folders, looked after by a thread: which there are, how far they are, and the numbers of
/// those that somebody looks at, which are dropped when nobody has for a minute. Thread-safe.
class WatchedRuns {
 public:
  /// Further runs are left out.
  static constexpr std::size_t kMostRuns = 2000;

  /// `paths`: folders of runs, or folders with runs in them. Throws DataError if one has none now.
  explicit WatchedRuns(std::vector<std::filesystem::path> paths);
  ~WatchedRuns() = default;
  WatchedRuns(const WatchedRuns&) = delete;
  WatchedRuns& operator=(const WatchedRuns&) = delete;

  /// In the order in which they were found.
  std::vector<ListedRun> list() const;
  /// The folder of a run; empty if there is no such run.
  std::filesystem::path folder_of(int id) const;
  /// The numbers of a run, which are read from now on; null if there is no such run.
  std::shared_ptr<const RunData> data_of(int id);

 private:
  struct Run {
    ListedRun listed;
    Settings settings;
    std::uintmax_t bytes = 0;  // of metrics.jsonl when the status was read
    double looked_at = 0.0;    // when that was; 0: never
    double wanted_at = 0.0;
    std::shared_ptr<RunData> data;
  };

  void watch();
  void find_runs();
  void update_kinds();
  /// Reads the status that is oldest, where it may have changed; false if none is due.
  bool look_at_one();
  /// Reads a piece of each wanted run; whether there is more.
  bool read_on();

  const std::vector<std::filesystem::path> paths_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Run> runs_;
  bool wanted_ = false, ending_ = false;
  ThreadGroup thread_;  // last: it uses the rest
};

}  // namespace moh::watch
