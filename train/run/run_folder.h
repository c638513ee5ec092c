#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/io/run_lock.h"
#include "train/log/log_file.h"

namespace moh {

/// The folder of a run, locked for the process that trains in it. Checkpoints and metrics are written by
/// others (CheckpointStore, MetricsWriter).
class RunFolder {
 public:
  RunFolder() = default;
  ~RunFolder() { leave(); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Makes the folder where it is missing, locks it, and clears away what a killed process was writing.
  /// Throws ConfigError when another process has it, and when it holds files that a run would replace
  /// although no run is in it; StorageError.
  void open(std::filesystem::path path);
  /// The run begins or goes on: writes config.yaml. With `overwrite` the run that was there goes first, and
  /// nothing else does: the folder may hold notes of its owner. Throws StorageError.
  void begin(std::string_view config_yaml, bool overwrite);
  /// moh.log, which all processes of the run add their lines to. Throws StorageError.
  std::unique_ptr<LogFile> open_log() const;
  /// Gives the folder back. What open() made goes again, unless the run has begun. May be called by another
  /// thread, for a process that is about to end.
  void leave();

  const std::filesystem::path& path() const { return path_; }
  /// Who had the folder before and did not leave it (killed, power lost); empty after a clean end.
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
