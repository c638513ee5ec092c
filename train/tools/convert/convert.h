#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/tasks/family.h"
#include "train/weights/compare_weights.h"
#include "train/weights/weight_writer.h"

namespace moh {

enum class WeightFormat {
  kSafetensors,   ///< one file, or a folder of shards
  kHuggingFace,   ///< a folder that transformers opens: tensors, config.json, and the code of a MoH model
  kMohCheckpoint  ///< a step folder without optimiser state
};

struct ConvertOptions {
  std::filesystem::path from;
  std::filesystem::path to;
  WeightFormat format = WeightFormat::kSafetensors;
  std::string part;                ///< of a PyTorch file
  std::string_view dtype;          ///< "F32", "BF16" or "F16" for all tensors; empty: as they are
  std::uint64_t shard_bytes = 0;   ///< 0: one file
  std::filesystem::path config;    ///< a run's YAML that describes the model; empty: what lies beside `from`
  bool allow_differences = false;  ///< go on although names, shapes or a configuration contradict the model
  bool overwrite = false;
};

/// What a conversion has found and done.
struct ConvertReport {
  std::string source_format;
  std::filesystem::path model_config;  ///< the file that describes the model; empty when none does
  /// What a user should hear: why moh does not know the model that a file describes, what of it was assumed,
  /// which of several models was taken.
  std::vector<std::string> warnings;
  WeightDifferences differences;
  std::size_t tensors = 0;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;  ///< of all elements, as written
  std::size_t files = 0;    ///< with tensors
};

/// What convert_model() tells on its way.
struct ConvertEvents {
  /// Before anything is written, once names are compared and the bytes are known.
  FunctionRef<void(const ConvertReport& report)> begin;
  WriteProgress progress;
};

/// Reads a model and writes it in another format, block by block: memory does not depend on its size. `to`
/// appears complete or not at all. Where the model is known, names and shapes are compared first. Throws
/// CheckpointError for what cannot be read and for differences that were not allowed, ConfigError for a model
/// that is not known but must be, or a `to` that is taken, StorageError.
ConvertReport convert_model(const ConvertOptions& options, const Families& families,
                            const ConvertEvents& events);

}  // namespace moh
