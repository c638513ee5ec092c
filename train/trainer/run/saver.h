#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <optional>

#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/weight_average.h"
#include "train/trainer/run/run_parts.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

class CheckpointWriter;
class ShardedParameters;

/// Saves the checkpoints of a run, one at a time, from the very tensors of the training: there is no copy of
/// them, so a save needs the memory of the streamed write alone, and whoever changes such a tensor calls
/// finish() before. On the CPU, with checkpoint.asynchronous, a thread of its own writes, and the training
/// goes on up to its next update.
///
/// A process whose optimiser has all of the state writes whole checkpoints, the first one of several. Where
/// the state is sharded (ParameterShards), every process writes its shard, and start() and finish() are
/// collectives: they tell all the folder, and gather what was written. Until then the checkpoint has a name
/// under which nobody finds it, whichever process fails.
class Saver {
 public:
  /// The arguments outlive this object, and `average` may be null.
  Saver(const RunParts& run, const AdamW& optimizer, const WeightAverage* average);
  /// Waits, for a whole checkpoint's end; a sharded one that was not finished is dropped.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Whether this process writes checkpoints, or shards of them.
  bool writes() const { return writer_ != nullptr; }
  /// Whether start() returns before the checkpoint is written.
  bool is_asynchronous() const { return asynchronous_; }
  /// Starts a save of the run in this state; finish() comes between two. `score` is that of its weights.
  /// Throws StorageError.
  void start(const TrainState& state, std::optional<double> score);
  /// Before anything changes that a save under way reads: waits for its end. Throws StorageError.
  void finish();

 private:
  CheckpointContents contents_of(const TrainState& state, std::optional<double> score);
  std::vector<NamedTensor> average_to_write();

  RunParts run_;
  const AdamW& optimizer_;
  const WeightAverage* average_;
  bool asynchronous_, sharded_;
  std::int64_t step_ = -1;  // of the last save
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<ShardedParameters> sharded_average_;  // that is being written
  std::future<void> writing_;                           // of std::async: its destructor waits
};

}  // namespace moh
