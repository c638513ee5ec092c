#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <utility>

#include "train/checkpoint/checkpoint_store.h"

namespace moh {

/// Saves the checkpoints of a store on a thread of its own, one at a time, from the very tensors of the
/// training: there is no copy of them, so that a save needs the memory of the streamed write alone. Whoever
/// changes a tensor of the checkpoint waits before. What a training computes between two updates changes
/// none.
class BackgroundSave {
 public:
  /// `store` must outlive this object. `warn` is told of a thread that the system refuses: wait() then writes
  /// the checkpoint.
  BackgroundSave(CheckpointStore& store, CheckpointStore::Warn warn)
      : store_(store), warn_(std::move(warn)) {}
  /// Waits; an error is lost.
  ~BackgroundSave() = default;
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Starts a save; wait() comes between two. The tensors must not change before wait().
  void start(CheckpointContents contents);
  bool under_way() const { return saving_.valid(); }
  /// Waits for the end of the save that is under way, and returns its folder; nothing if there is none.
  /// Throws what CheckpointStore::save() threw, once.
  std::optional<std::filesystem::path> wait();

 private:
  CheckpointStore& store_;
  CheckpointStore::Warn warn_;
  std::future<std::filesystem::path> saving_;  // of std::async: its destructor waits
};

}  // namespace moh
