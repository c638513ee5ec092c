#pragma once

#include <filesystem>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"

namespace moh {

/// Writes all files of a checkpoint into an existing empty folder, each synced, the manifest last, and syncs
/// the folder. The part of CheckpointStore::save before the rename. Throws StorageError.
void write_checkpoint_files(const CheckpointContents& contents, const std::filesystem::path& folder);

/// Completes a checkpoint that holds a model alone, in a folder with its model.safetensors, which `model`
/// lists: writes the other files, the manifest last, and syncs the folder. Throws StorageError.
void finish_model_only_checkpoint(const std::filesystem::path& folder, std::int64_t step, ManifestFile model,
                                  std::string_view config_yaml);

}  // namespace moh
