#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/checkpoint/checkpoint_store.h"

namespace moh {

/// A small checkpoint with tensors of several dtypes, one of them empty, and values that follow from the
/// step.
CheckpointContents sample_checkpoint(std::int64_t step);

/// All that a checkpoint holds, its tensors loaded.
CheckpointContents contents_of(const StoredCheckpoint& checkpoint);
CheckpointContents read_checkpoint(const std::filesystem::path& step_folder);

/// Whether all of it is equal, bit by bit; the order of the tensors does not matter.
bool same_checkpoint(const CheckpointContents& a, const CheckpointContents& b);
bool same_checkpoint(const StoredCheckpoint& a, const CheckpointContents& b);

/// A store whose warnings are collected.
struct StoreUnderTest {
  explicit StoreUnderTest(const std::filesystem::path& run_folder, RetentionPolicy retention = {});

  std::vector<std::string> warnings;
  CheckpointStore store;
};

/// Names in a folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace moh
