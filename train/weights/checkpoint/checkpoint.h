#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/base/formats/safetensors.h"
#include "train/weights/checkpoint/manifest.h"

namespace moh {

// A checkpoint is a folder `checkpoints/step_00001200` of the run folder:
//   model.safetensors                        parameters, under the names of the model
//   ema.safetensors                          their moving average, under the same names, if the run has one
//   optimizer-00000-of-00001.safetensors     optimizer state, one file per process that holds a part of it
//   trainer.json                             all other state of the trainer
//   (train/weights/checkpoint/train_state.h) config.yaml                              the configuration of
//   the run tokenizer.json ...                       files of the tokenizer, if the model has one of its own
//   manifest.json                            list of the other files with sizes and checksums (manifest.h)
// The folder gets this name by a single rename, after all of it has been synced to disk.

/// The contents of a checkpoint. Tensors may be on any device; they pass through host memory block by block.
struct CheckpointContents {
  std::int64_t step = 0;
  std::optional<double> metric;   ///< score of the evaluation; RetentionPolicy::keep_best compares it
  bool higher_is_better = false;  ///< whether a higher metric is better, as an accuracy, or a lower one
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> average;       ///< moving average of the model; empty: none
  std::function<void()> after_read = {};  ///< called when a tensor of them has been read; empty: nothing is
  std::vector<NamedTensor> optimizer;
  std::string trainer_json;
  std::string config_yaml;
  /// (name, contents) of files that the model is used with, such as tokenizer.json (is_carried_file).
  std::vector<std::pair<std::string, std::string>> files = {};
};

/// A checkpoint folder, of which only the manifest has been read.
struct CheckpointInfo {
  std::filesystem::path folder;
  std::int64_t step = 0;
  std::optional<double> metric;
  std::string problem;  ///< why it is incomplete; empty if it is complete

  bool complete() const { return problem.empty(); }
};

/// "step_00001200".
std::string checkpoint_folder_name(std::int64_t step);
/// 1200 for "step_00001200"; nothing for a name of another form.
std::optional<std::int64_t> step_of_folder_name(std::string_view name);

/// The checkpoints in a folder `checkpoints`, ascending by step; empty if there is no such folder. A
/// checkpoint is complete if its manifest is valid and lists exactly the files that exist, with their sizes.
/// Checksums of the files are verified when they are read (stored_checkpoint.h).
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& checkpoints_folder);

/// The folder of a step in a folder `checkpoints`. Throws CheckpointError, which begins with `where`, if it
/// has no checkpoint of the step.
std::filesystem::path folder_of_step(const std::filesystem::path& checkpoints_folder, std::int64_t step,
                                     const std::string& where);

/// The path of a checkpoint that a user names by its run and its step: RUN/checkpoints/step_00001200 for
/// "RUN@1200". Another path, and one that exists, stays as it is. Throws CheckpointError if the run has no
/// checkpoint of the step.
std::filesystem::path path_of_step(const std::filesystem::path& path);

/// The step folder that a user means by `path`: a step folder itself, "RUN@STEP", or the newest checkpoint of
/// a `checkpoints` folder or of a run folder. Throws CheckpointError if there is none, and if the newest is
/// incomplete: falling back to an older one silently would lose work.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

/// Writes and syncs the optimiser state of process `index` of `count`; returns its entry in the manifest.
/// Throws StorageError.
ManifestFile write_optimizer_shard(const std::filesystem::path& folder, int index, int count,
                                   std::span<const NamedTensor> state);

/// Writes and syncs model and average, of which it reads one tensor after the other; returns their entries in
/// the manifest. Throws StorageError.
std::vector<ManifestFile> write_model_files(const CheckpointContents& contents,
                                            const std::filesystem::path& folder);

/// Reads the tensors that write_model_files() writes in another process, in its order: where they are divided
/// among processes, reading is a collective.
void read_model_files(const CheckpointContents& contents);

/// Completes a checkpoint in a folder that has the files with tensors, of which these are the entries: writes
/// the others, the manifest last, and syncs the folder. Throws StorageError.
void complete_checkpoint(const CheckpointContents& contents, std::vector<ManifestFile> model,
                         std::vector<ManifestFile> shards, const std::filesystem::path& folder);

/// Writes and syncs all files of a checkpoint in an existing empty folder, the manifest last, and syncs the
/// folder: CheckpointStore::save up to the rename. Throws StorageError.
void write_checkpoint_files(const CheckpointContents& contents, const std::filesystem::path& folder);

}  // namespace moh
