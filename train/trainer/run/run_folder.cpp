#include "train/trainer/run/run_folder.h"

#include <unistd.h>

#include <array>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"
#include "train/trainer/run/tensorboard_file.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

/// Files that a run replaces, besides its checkpoints.
constexpr std::array kRunFiles = {"metrics.jsonl", TensorBoardFile::kName, "config.yaml", "sample.txt",
                                  "trace.json"};
constexpr const char* kLog = "moh.log";  // appended to
constexpr const char* kSamples = "samples";

/// moh.rank1.log, trace.rank1.json and so on.
std::vector<fs::path> files_of_others(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_log = name.starts_with("moh.rank") && name.ends_with(".log");
    if (is_log || (name.starts_with("trace.rank") && name.ends_with(".json"))) files.push_back(entry.path());
  }
  return files;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// Throws if the folder of a run's pictures is a link, or no folder; false if there is none.
bool has_own_folder(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (!fs::exists(status)) return false;
  if (fs::is_directory(status)) return true;
  const bool link = fs::is_symlink(status);
  throw StorageError(error_message(
      path.string(), "", "a folder of this run", link ? "a symbolic link" : "another kind of file",
      link ? "remove the link (the run folder itself may be a link)" : "remove it, or move it elsewhere"));
}

/// Removes pictures that a run has drawn, or with `halves` what a killed process left of one.
void remove_samples(const fs::path& folder, bool halves) {
  if (!has_own_folder(folder)) return;
  for (const fs::path& file : list_directory(folder)) {
    const std::string name = file.filename().string();
    const bool half = name.starts_with(".step_") && name.find(".png.tmp-") != std::string::npos;
    if (halves ? half : name.starts_with("step_") && name.ends_with(".png")) remove_tree(file);
  }
  if (!halves) ::rmdir(folder.c_str());  // unless it has other files
}

std::unique_ptr<LogFile> begun_log(const fs::path& path) {
  auto log = std::make_unique<LogFile>(path);
  log->append("--- " + describe_this_process() + " ---\n");
  return log;
}

/// The missing ones among the folder and its parents, the innermost first.
std::vector<fs::path> missing_folders(const fs::path& path) {
  std::vector<fs::path> missing;
  for (fs::path folder = path; !is_there(folder); folder = folder_of(folder)) missing.push_back(folder);
  return missing;
}

/// Throws if the folder has files that a run would replace, but neither lock nor checkpoints of a run.
void require_no_foreign_files(const fs::path& folder) {
  if (is_there(folder / ".lock") || is_there(folder / "checkpoints")) return;
  for (const char* name : kRunFiles) {
    if (!is_there(folder / name)) continue;
    throw ConfigError(error_message(
        "output.dir", folder.string(), "the folder of a run, or one without a file that a run writes",
        std::string(name) + ", which is no run's", "set another output.dir, or move that file elsewhere"));
  }
}

}  // namespace

void RunFolder::open(fs::path path) {
  const std::lock_guard lock(mutex_);
  require_no_foreign_files(path);
  path_ = std::move(path);
  made_ = missing_folders(path_);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw StorageError("output.dir: " + path_.string() + ": cannot be created: " + error.message());
  lock_.emplace(path_);
  crashed_holder_ = lock_->crashed_holder();
  // CheckpointStore does the same for checkpoints.
  for (const char* name : kRunFiles) remove_abandoned_temporaries(path_ / name);
  remove_samples(path_ / kSamples, /*halves=*/true);
}

void RunFolder::begin(std::string_view config_yaml, bool overwrite) {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  if (overwrite) {
    remove_tree(path_ / "checkpoints");
    for (const char* name : kRunFiles) remove_tree(path_ / name);
    remove_tree(path_ / kLog);
    for (const fs::path& file : files_of_others(path_)) remove_tree(file);
    remove_samples(path_ / kSamples, /*halves=*/false);
  }
  write_file_durably(path_ / "config.yaml", config_yaml);
}

std::unique_ptr<LogFile> RunFolder::open_log() const {
  return begun_log(path_ / kLog);
}

std::unique_ptr<LogFile> RunFolder::open_log_of(const fs::path& folder, int rank) {
  return begun_log(folder / ("moh.rank" + std::to_string(rank) + ".log"));
}

fs::path RunFolder::make_samples_folder() const {
  fs::path folder = path_ / kSamples;
  if (!has_own_folder(folder)) make_directories(folder);
  return folder;
}

void RunFolder::leave() {
  const std::lock_guard lock(mutex_);
  if (lock_ && lock_->is_new() && !begun_) {
    ::rmdir((path_ / "checkpoints").c_str());  // removes it if it is empty, as those below
    lock_->remove();
  }
  if (!begun_) {
    for (const fs::path& folder : made_) ::rmdir(folder.c_str());
  }
  lock_.reset();
  made_.clear();
}

}  // namespace moh
