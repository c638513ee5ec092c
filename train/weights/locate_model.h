#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "train/base/formats/weight_file.h"
#include "train/weights/sharded_weights.h"

namespace moh {

/// The paths of a stored model.
struct ModelLocation {
  std::filesystem::path weights;  ///< a file, or the step folder of a checkpoint
  std::filesystem::path config;   ///< config.json or a run's YAML; empty if there is none
  bool is_checkpoint = false;     ///< a checkpoint of moh: `weights` is a step folder

  /// Whether the model comes with a config.json.
  bool is_hf() const { return config.filename() == "config.json"; }
};

/// Parts of a checkpoint: the weights and their moving average.
inline constexpr std::string_view kModelPart = "model", kAveragePart = "ema";

/// The model at `path`: a safetensors file, the index of a sharded one, a PyTorch file, a Hugging
/// Face folder with one of them (safetensors before PyTorch, as the Hugging Face libraries choose), or a
/// checkpoint of moh (a run folder, a `checkpoints` folder, one step's folder, or "RUN@STEP"). Throws
/// CheckpointError.
ModelLocation locate_model(const std::filesystem::path& path);

/// Opens the weights. The format is detected from the contents. Of a checkpoint, the manifest, the name of
/// the folder and the text files are checked at once, and tensor files before their first elements are
/// returned. `part` selects one of several models in a PyTorch file or a checkpoint ("model", "ema"); empty:
/// the only one, or the one that the released code would load. Throws CheckpointError, and ConfigError for a
/// part of a file that has none.
std::unique_ptr<WeightFile> open_weights(const ModelLocation& location, const std::string& part = {},
                                         TotalSize total_size = TotalSize::kChecked);

/// Whether a folder is the step folder of a checkpoint of moh, written by a run or a conversion.
bool is_step_folder(const std::filesystem::path& folder);

}  // namespace moh
