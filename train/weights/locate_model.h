#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "train/formats/weight_file.h"
#include "train/weights/sharded_weights.h"

namespace moh {

/// Where a model lies.
struct ModelLocation {
  std::filesystem::path weights;  ///< a file, or the step folder of a checkpoint
  std::filesystem::path config;   ///< config.json or a run's YAML; empty where there is none
  bool is_checkpoint = false;     ///< of moh: `weights` is a step folder

  /// Whether the model comes with a config.json.
  bool is_hf() const { return config.filename() == "config.json"; }
};

/// What a user means by `path`: a safetensors file, the index of a sharded one, a PyTorch file, a Hugging
/// Face folder with one of them (safetensors before PyTorch, as the Hugging Face libraries choose), or a
/// checkpoint of moh (a run folder, a `checkpoints` folder or one step's folder). Throws CheckpointError.
ModelLocation locate_model(const std::filesystem::path& path);

/// Opens the tensors alone. What a file is, its contents say. Of a checkpoint, the manifest, the name of the
/// folder and the texts are checked at once, and all elements before the first are handed out. `part` chooses
/// among the models that one PyTorch file may hold ("model", "ema"); empty: the only one, or the one that the
/// released code would load. Throws CheckpointError, and ConfigError for a part of a file that has none.
std::unique_ptr<WeightFile> open_weights(const ModelLocation& location, const std::string& part = {},
                                         TotalSize total_size = TotalSize::kChecked);

/// Whether a folder is that of a checkpoint of moh, a run's or a converted one.
bool is_step_folder(const std::filesystem::path& folder);

}  // namespace moh
