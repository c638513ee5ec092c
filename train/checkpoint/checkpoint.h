#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/manifest.h"
#include "train/formats/safetensors.h"

namespace moh {

// A checkpoint is a folder `checkpoints/step_00001200` of the run folder:
//   model.safetensors                        parameters, under the names of the model
//   optimizer-00000-of-00001.safetensors     optimizer state, one file per process that holds a part of it
//   trainer.json                             whatever else the trainer needs to continue
//   config.yaml                              the configuration of the run
//   manifest.json                            what belongs to it, with sizes and checksums (manifest.h)
// It becomes visible under this name by one rename, when all of it is on the disk.

/// What is saved as a checkpoint. Tensors may be on any device; a block of them at a time is in main memory.
struct CheckpointContents {
  std::int64_t step = 0;
  std::optional<double> metric;   ///< the score of the evaluation; retention keeps the best
  bool higher_is_better = false;  ///< of two scores; else the lower one
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
  std::string trainer_json;
  std::string config_yaml;
};

/// trainer.json of a checkpoint that holds a model alone: converted from elsewhere, never trained here.
inline constexpr std::string_view kModelOnlyTrainer = "{\"model_only\": true}\n";

/// A checkpoint folder as listed, without its tensors having been read.
struct CheckpointInfo {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::optional<double> metric;
  std::string problem;  ///< why it is not complete; empty when it is

  bool complete() const { return problem.empty(); }
};

/// "step_00001200".
std::string checkpoint_folder_name(std::int64_t step);
/// 1200 for "step_00001200"; nothing for a name that is not a checkpoint's.
std::optional<std::int64_t> step_of_folder_name(std::string_view name);

/// The checkpoints in a folder `checkpoints`, ascending by step; empty when there is no such folder. Complete
/// means: the manifest is sound and names exactly the files that are there, with their sizes. Checksums are
/// verified when it is read (stored_checkpoint.h).
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& checkpoints_folder);

/// The step folder that a user means by `path`: a step folder itself, or the newest checkpoint of a
/// `checkpoints` folder or of a run folder. Throws CheckpointError when there is none, and when the newest is
/// not complete: to fall back silently would be to lose work without a word.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

/// Writes all files of a checkpoint into an existing empty folder, each synced, the manifest last, and syncs
/// the folder. The part of CheckpointStore::save before the rename. Throws StorageError.
void write_checkpoint_files(const CheckpointContents& contents, const std::filesystem::path& folder);

/// Completes a checkpoint that holds a model alone, in a folder with its model.safetensors, which `model`
/// lists: writes the other files, the manifest last, and syncs the folder. Throws StorageError.
void finish_model_only_checkpoint(const std::filesystem::path& folder, std::int64_t step, ManifestFile model,
                                  std::string_view config_yaml);

}  // namespace moh
