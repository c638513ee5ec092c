#pragma once

#include <filesystem>
#include <memory>

#include "train/comm/communicator.h"
#include "train/trainer/optim/adamw.h"
#include "train/weights/checkpoint/checkpoint_store.h"

namespace moh {

/// Writes checkpoints, one after the other, each in three parts. The first and the last are of the thread
/// that trains, at points that all processes reach alike; the one between them runs on any thread, and
/// communicates with nobody.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;

  /// `contents` but for the optimiser's state, whose tensors must not change before write() has ended. Throws
  /// StorageError.
  virtual void begin(CheckpointContents contents, const AdamW& optimizer) = 0;
  virtual void write() = 0;
  /// Returns the folder of the checkpoint in the process that has made it visible; "" in others.
  virtual std::filesystem::path publish() = 0;
};

/// The writer of one process, which has everything.
std::unique_ptr<CheckpointWriter> whole_checkpoint_writer(CheckpointStore& store);

/// The writer of several processes, each of which writes its shard of the optimiser's state: begin() and
/// publish() are collectives. `store` and the contents except for that state are those of rank 0. All
/// arguments outlive the result.
std::unique_ptr<CheckpointWriter> sharded_checkpoint_writer(CheckpointStore* store, Communicator& processes);

}  // namespace moh
