#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint_store.h"
#include "train/comm/communicator.h"
#include "train/optim/parameter_shards.h"

namespace moh {

/// Logs that the system refused the thread of a save.
void warn_of_waiting_save(const std::string& reason);

/// Saves checkpoints of which each process writes a part, its optimiser state, on a thread of its own, from
/// the very tensors of the training, as BackgroundSave. These threads do not communicate: start() tells all
/// processes the folder, finish() gathers what they have written, both at points of the training that all
/// reach alike, and then process 0 makes the checkpoint visible. Until then it has a name under which nobody
/// finds it, whichever process fails.
class DividedSave {
 public:
  /// `store` is that of process 0; the others need none. Both must outlive this object.
  DividedSave(Communicator& processes, CheckpointStore* store) : processes_(processes), store_(store) {}
  /// Waits for this process's part; a checkpoint that was not finished is dropped.
  ~DividedSave() = default;
  DividedSave(const DividedSave&) = delete;
  DividedSave& operator=(const DividedSave&) = delete;

  /// Starts a save; finish() comes between two. `contents`, but for the optimiser state, are of interest to
  /// process 0 alone; of `state`, parts without elements are not written. The tensors must not change before
  /// finish(). A collective; throws StorageError.
  void start(CheckpointContents contents, const std::vector<TensorPart>& state);
  bool under_way() const { return writing_.valid(); }
  /// Waits for the parts of all processes. Process 0 then publishes the checkpoint, and gets its folder; the
  /// others get "". A collective; throws StorageError, in the process that has met it.
  std::filesystem::path finish();

 private:
  Communicator& processes_;
  CheckpointStore* store_;
  CheckpointContents contents_;
  std::unique_ptr<CheckpointDraft> draft_;          // of process 0
  std::future<std::vector<ManifestFile>> writing_;  // of std::async: its destructor waits
};

}  // namespace moh
