#pragma once

#include <filesystem>

#include "train/checkpoint/checkpoint.h"

namespace moh {

/// Writes all files of a checkpoint into an existing empty folder, each synced, the manifest last, and syncs
/// the folder. The part of CheckpointStore::save before the rename. Throws StorageError.
void write_checkpoint_files(const CheckpointContents& contents, const std::filesystem::path& folder);

}  // namespace moh
