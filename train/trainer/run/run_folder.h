#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/base/io/run_lock.h"
#include "train/base/log/log_file.h"

namespace moh {

/// The folder of a run, locked for the process that trains in it. CheckpointStore and MetricsWriter write its
/// checkpoints and metrics.
class RunFolder {
 public:
  RunFolder() = default;
  ~RunFolder() { leave(); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Creates the folder if missing, locks it, and removes temporary files of a killed process. Throws
  /// ConfigError if another process has locked it, and if it contains no run but files that a run would
  /// replace; StorageError, also if its folder `samples` is a link.
  void open(std::filesystem::path path);
  /// Writes config.yaml for a run that starts or resumes. With `overwrite`, first removes the files of the
  /// previous run, and no others: the folder may contain the user's own files. Throws StorageError.
  void begin(std::string_view config_yaml, bool overwrite);
  /// Opens moh.log, to which all who lead the run, one after the other, append. Throws StorageError.
  std::unique_ptr<LogFile> open_log() const;
  /// The log of another process of the run, moh.rank2.log, in its folder, which begin() has made.
  static std::unique_ptr<LogFile> open_log_of(const std::filesystem::path& folder, int rank);
  /// Unlocks the folder, and removes what open() created unless begin() was called. May be called by another
  /// thread of a process that is about to end.
  void leave();

  const std::filesystem::path& path() const { return path_; }
  /// Makes the folder of the pictures that a run draws, unless it is there. Throws StorageError, also for a
  /// symbolic link: files of these names at its target would be replaced.
  std::filesystem::path make_samples_folder() const;
  /// The process that locked the folder before and ended without unlocking it (killed, power loss); empty
  /// after a clean end.
  const std::string& crashed_holder() const { return crashed_holder_; }
  /// Throws StorageError when the folder was removed, moved or replaced since. Called before anything is
  /// written there.
  void require_in_place() const { lock_->require_in_place(); }

 private:
  std::mutex mutex_;
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // the innermost first
  std::optional<RunLock> lock_;
  std::string crashed_holder_;
  bool begun_ = false;
};

}  // namespace moh
