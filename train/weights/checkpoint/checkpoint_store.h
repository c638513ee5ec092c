#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/checkpoint/stored_checkpoint.h"

namespace moh {

/// The rule by which checkpoints are kept. The newest always is.
struct RetentionPolicy {
  int keep_last = 3;                    ///< this many of the newest; at least 1
  bool keep_best = true;                ///< and the one with the best metric
  std::vector<std::int64_t> keep = {};  ///< and those of these steps
};

/// The folder of a checkpoint that is being written, under a temporary name. Removed with this object if it
/// still exists, after a failure.
class CheckpointDraft {
 public:
  /// For a checkpoint that will be `target`. Whoever makes the folder does so afterwards.
  CheckpointDraft(std::filesystem::path folder, std::filesystem::path target)
      : folder_(std::move(folder)), target_(std::move(target)) {}
  ~CheckpointDraft();
  CheckpointDraft(const CheckpointDraft&) = delete;
  CheckpointDraft& operator=(const CheckpointDraft&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& target() const { return target_; }

 private:
  std::filesystem::path folder_, target_;
};

/// Saves, prunes and opens the checkpoints of one run, for the process that trains. The caller holds the
/// RunLock of the run folder. Reading a checkpoint of another run needs no store (checkpoint.h).
///
/// Crash safety: whenever the process is killed or the machine fails, every checkpoint whose save() returned
/// is intact, unless it was pruned.
class CheckpointStore {
 public:
  /// Receives warnings: failures that do not stop the run.
  using Warn = std::function<void(const std::string&)>;

  /// Creates `checkpoints` in the run folder if missing, and removes temporary folders of a killed process.
  CheckpointStore(const std::filesystem::path& run_folder, RetentionPolicy retention, Warn warn);

  const std::filesystem::path& folder() const { return folder_; }
  std::vector<CheckpointInfo> list() const { return list_checkpoints(folder_); }

  /// Writes a checkpoint and returns its folder once it is durable: writes and syncs the files in a temporary
  /// folder, the manifest last, renames the folder, and syncs its parent. Then prunes. An older checkpoint of
  /// the same step is replaced. Throws StorageError, after removing the temporary folder, if it cannot be
  /// written; a failure to prune is a warning.
  std::filesystem::path save(const CheckpointContents& contents);

  /// save() in two parts, for a checkpoint that is written elsewhere: a folder for its files, and, once these
  /// are complete and synced (complete_checkpoint), the rename and all that follows it.
  std::unique_ptr<CheckpointDraft> begin(std::int64_t step) const;
  std::filesystem::path publish(const CheckpointDraft& draft, bool higher_is_better);

  /// Opens and verifies the newest checkpoint to resume from; nothing if there is none. If it is damaged:
  /// throws CheckpointError, or with `allow_older` warns and tries the previous one. Once an intact one is
  /// found, newer damaged ones are renamed to `damaged-step_...`, so that they are not found again after the
  /// run has continued. Throws CheckpointError if none is intact, and CheckpointAccessError, without renaming
  /// anything, if the system cannot read one.
  std::optional<StoredCheckpoint> open_newest(bool allow_older);

 private:
  void clear_leftovers();
  void rename_to(const std::filesystem::path& written, const std::filesystem::path& target);
  void prune(const std::filesystem::path& just_saved, bool higher_is_better);
  void remove_checkpoint(const std::filesystem::path& step_folder);
  void set_aside(const CheckpointInfo& damaged);
  /// Runs `action` and turns an Error into a warning.
  void warn_on_failure(std::string_view what, FunctionRef<void()> action) const;

  std::filesystem::path folder_;
  RetentionPolicy retention_;
  Warn warn_;
};

}  // namespace moh
