#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/trainer/task/family.h"
#include "train/weights/compare_weights.h"
#include "train/weights/weight_writer.h"

namespace moh {

enum class WeightFormat {
  kSafetensors,    ///< one file, or a folder of shards
  kHuggingFace,    ///< a folder that transformers, timm or PyTorch opens: tensors, config.json, and code
  kMohCheckpoint,  ///< a step folder without optimiser state
  kPeft            ///< a folder that PEFT opens on top of a base model: adapters, and what else was trained
};

struct ConvertOptions {
  std::filesystem::path from;
  std::filesystem::path to;
  WeightFormat format = WeightFormat::kSafetensors;
  std::string part;  ///< one of several models in a PyTorch file
  /// {N}: the mean of N checkpoints of a run, up to `from`; several: of those of these steps.
  std::vector<std::int64_t> average = {1};
  std::string_view dtype;          ///< "F32", "BF16" or "F16" for all tensors; empty: unchanged
  std::uint64_t shard_bytes = 0;   ///< maximum size of a file; 0: one file
  std::filesystem::path config;    ///< a run's YAML that describes the model; empty: the one next to `from`
  bool allow_differences = false;  ///< convert although names, shapes or a configuration contradict the model
  bool overwrite = false;
};

/// The result of a conversion.
struct ConvertReport {
  std::string source_format;
  std::filesystem::path model_config;  ///< the file that describes the model; empty if there is none
  /// Warnings for the user: why moh does not support the described model, which values were assumed, which of
  /// several models was selected.
  std::vector<std::string> warnings;
  WeightDifferences differences;
  std::size_t tensors = 0;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;  ///< of all written elements
  std::size_t files = 0;    ///< number of files with tensors
};

/// Callbacks of convert_model().
struct ConvertEvents {
  /// Called before anything is written, when names have been compared and the size is known.
  FunctionRef<void(const ConvertReport& report)> begin;
  WriteProgress progress;
};

/// Reads a model and writes it in another format, block by block, so that memory does not depend on its size.
/// Adapters (model.lora) are merged into their weights for kHuggingFace, as other programs know the result.
/// `to` is created atomically. If the model is described and supported, names and shapes are compared first.
/// Throws CheckpointError for files that cannot be read and for differences, unless these are allowed;
/// ConfigError if the output format requires a supported model and it is not, or if `to` exists;
/// StorageError.
ConvertReport convert_model(const ConvertOptions& options, const Families& families,
                            const ConvertEvents& events);

}  // namespace moh
