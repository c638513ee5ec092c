#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/stored_checkpoint.h"

namespace moh {

/// Which checkpoints stay. The newest always does.
struct RetentionPolicy {
  int keep_last = 3;      ///< this many of the newest; at least 1
  bool keep_best = true;  ///< and the one with the best metric
};

/// The checkpoints of one run, for the process that trains: it saves, prunes and resumes. The caller holds
/// the RunLock of the run folder. Reading a checkpoint of somebody else's run needs no store (checkpoint.h).
///
/// Whatever kills the process or the machine, and whenever: the checkpoints that save() returned from are
/// intact, up to what retention removed after it.
class CheckpointStore {
 public:
  /// Receives what is worth telling but no reason to stop.
  using Warn = std::function<void(const std::string&)>;

  /// Creates `checkpoints` in the run folder when missing, and clears away what a killed process left there.
  CheckpointStore(const std::filesystem::path& run_folder, RetentionPolicy retention, Warn warn);

  const std::filesystem::path& folder() const { return folder_; }
  std::vector<CheckpointInfo> list() const { return list_checkpoints(folder_); }

  /// Writes a checkpoint and returns its folder when it is durable: files into a temporary folder, each
  /// synced, the manifest last, one rename, the folder above synced. Then prunes. An older checkpoint of the
  /// same step is replaced. Throws StorageError, leaving nothing behind, when it cannot be written; failing
  /// to prune only warns.
  std::filesystem::path save(const CheckpointContents& contents);

  /// Opens and verifies the newest checkpoint to resume from; nothing when there is none. When it is damaged:
  /// throws CheckpointError, or with `allow_older` warns and tries the one before; once one is found to be
  /// sound, the damaged ones are moved aside (to `damaged-step_...`), so that they do not count again when
  /// this run has gone on. Throws CheckpointError also when none is sound, and CheckpointAccessError, with
  /// everything where it was, when the system does not let one be read.
  std::optional<StoredCheckpoint> open_newest(bool allow_older);

 private:
  void clear_leftovers();
  void publish(const std::filesystem::path& written, const std::filesystem::path& target);
  void prune(const std::filesystem::path& just_saved, bool higher_is_better);
  void remove_checkpoint(const std::filesystem::path& step_folder);
  void set_aside(const CheckpointInfo& damaged);
  /// Runs what is no reason to stop when it fails.
  void warn_on_failure(std::string_view what, FunctionRef<void()> action) const;

  std::filesystem::path folder_;
  RetentionPolicy retention_;
  Warn warn_;
};

}  // namespace moh
