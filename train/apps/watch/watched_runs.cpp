#include "train/apps/watch/watched_runs.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "train/base/log/progress.h"

namespace moh::watch {

namespace fs = std::filesystem;

namespace {

constexpr double kFindSeconds = 2.0, kLookSeconds = 2.0, kLookingSeconds = 0.05, kKeptSeconds = 60.0;
constexpr std::chrono::milliseconds kPause(200);
/// The memory of all runs together.
constexpr DataLimits kAll = {std::size_t{16} << 20, std::size_t{64} << 20};
constexpr std::size_t kFewRuns = 4;

}  // namespace

WatchedRuns::WatchedRuns(std::vector<fs::path> paths)
    : paths_(std::move(paths)), thread_([this] {
        {
          const std::scoped_lock lock(mutex_);
          ending_ = true;
        }
        changed_.notify_all();
      }) {
  for (const fs::path& path : paths_) run_folders(path);  // throws where there is none
  find_runs();
  thread_.start(ThreadUse{"thread that watches runs"}, 1, [this] { watch(); });
}

void WatchedRuns::watch() {
  double found = monotonic_seconds();
  for (;;) {
    const bool more = read_on();
    const double begin = monotonic_seconds();
    bool looked = true;
    while (looked && monotonic_seconds() - begin < kLookingSeconds) looked = look_at_one();
    if (monotonic_seconds() - found > kFindSeconds) {
      find_runs();
      found = monotonic_seconds();
    }
    std::unique_lock lock(mutex_);
    if (!more && !looked) changed_.wait_for(lock, kPause, [this] { return ending_ || wanted_; });
    wanted_ = false;
    if (ending_) return;
  }
}

void WatchedRuns::find_runs() {
  std::set<fs::path> known;
  {
    const std::scoped_lock lock(mutex_);
    for (const Run& run : runs_) known.insert(run.listed.status.folder);
  }
  std::vector<Run> fresh;
  for (const fs::path& path : paths_) {
    std::vector<fs::path> below;
    try {
      below = run_folders(path);
    } catch (const DataError&) {
      continue;  // they were removed
    }
    for (const fs::path& folder : below) {
      if (known.size() >= kMostRuns || !known.insert(folder).second) continue;
      Run run;
      run.listed.status.folder = folder;
      run.settings = settings_of(folder);
      fresh.push_back(std::move(run));
    }
  }
  if (fresh.empty()) return;
  const std::scoped_lock lock(mutex_);
  for (Run& run : fresh) {
    run.listed.id = static_cast<int>(runs_.size());
    runs_.push_back(std::move(run));
  }
  update_kinds();
}

void WatchedRuns::update_kinds() {
  std::vector<Settings> settings;
  for (const Run& run : runs_) settings.push_back(run.settings);
  const std::vector<RunKind> kinds = kinds_of(settings);
  for (std::size_t i = 0; i < runs_.size(); ++i) runs_[i].listed.kind = kinds[i];
}

bool WatchedRuns::look_at_one() {
  std::size_t at = 0;
  fs::path folder;
  bool unseen = false, unsettled = false;
  std::uintmax_t before = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (ending_ || runs_.empty()) return false;
    const auto oldest = std::ranges::min_element(runs_, {}, &Run::looked_at);
    unseen = oldest->looked_at == 0.0;
    if (!unseen && monotonic_seconds() - oldest->looked_at < kLookSeconds) return false;
    at = static_cast<std::size_t>(oldest - runs_.begin());
    folder = oldest->listed.status.folder;
    unseen = unseen || oldest->listed.status.state.starts_with("running");
    unsettled = oldest->settings.empty();
    before = oldest->bytes;
  }
  std::error_code none;
  const std::uintmax_t size = fs::file_size(folder / "metrics.jsonl", none);
  const std::uintmax_t bytes = none ? 0 : size;
  std::optional<RunStatus> status;
  if (unseen || bytes != before) status = status_or_unreadable(folder);
  Settings settings;
  if (unsettled) settings = settings_of(folder);
  const std::scoped_lock lock(mutex_);
  Run& run = runs_[at];
  run.looked_at = monotonic_seconds();
  run.bytes = bytes;
  if (status) run.listed.status = std::move(*status);
  if (settings.empty()) return true;
  run.settings = std::move(settings);
  update_kinds();
  return true;
}

bool WatchedRuns::read_on() {
  std::vector<std::shared_ptr<RunData>> read;
  {
    const std::scoped_lock lock(mutex_);
    const double now = monotonic_seconds();
    for (Run& run : runs_) {
      if (now - run.wanted_at > kKeptSeconds) run.data.reset();
      if (run.data) read.push_back(run.data);
    }
  }
  const std::size_t parts = std::max(read.size(), kFewRuns);
  const DataLimits limits = {kAll.points / parts, kAll.frame_bytes / parts};
  bool more = false;
  for (const std::shared_ptr<RunData>& data : read) more = data->advance(limits) || more;
  return more;
}

std::vector<ListedRun> WatchedRuns::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<ListedRun> runs;
  for (const Run& run : runs_) runs.push_back(run.listed);
  return runs;
}

fs::path WatchedRuns::folder_of(int id) const {
  const std::scoped_lock lock(mutex_);
  return id >= 0 && id < std::ssize(runs_) ? runs_[static_cast<std::size_t>(id)].listed.status.folder
                                           : fs::path();
}

std::shared_ptr<const RunData> WatchedRuns::data_of(int id) {
  std::shared_ptr<const RunData> data;
  {
    const std::scoped_lock lock(mutex_);
    if (id < 0 || id >= std::ssize(runs_)) return nullptr;
    Run& run = runs_[static_cast<std::size_t>(id)];
    run.wanted_at = monotonic_seconds();
    if (run.data) return run.data;
    run.data = std::make_shared<RunData>(run.listed.status.folder);
    wanted_ = true;
    data = run.data;
  }
  changed_.notify_all();
  return data;
}

}  // namespace moh::watch
