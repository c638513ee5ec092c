#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/module.h"
#include "train/config/run_config.h"
#include "train/weights/weight_file.h"

namespace moh {

/// A model as somebody left it on a disk.
struct ModelSource {
  std::unique_ptr<WeightFile> weights;
  /// What the configuration beside the weights says; nothing where there is none (a bare tensor file).
  std::optional<ModelConfig> model;
};

/// Opens what a user means by `path`: a safetensors file, the index of a sharded one, a Hugging Face folder
/// (config.json beside either), a PyTorch file, or a checkpoint of moh (a run folder, a `checkpoints` folder
/// or one step's folder). What a file is, its contents say. `part` chooses among the models that one PyTorch
/// file may hold ("model", "ema"); empty: the only one, or the one that the released code would load. Throws
/// CheckpointError, and ConfigError for a config.json that describes what moh has not.
ModelSource open_model_source(const std::filesystem::path& path, const std::string& part = {});

/// Names in which a model and a weight file differ.
struct WeightDifferences {
  std::vector<std::string> missing;     ///< parameters without a tensor
  std::vector<std::string> unexpected;  ///< tensors without a parameter
  std::vector<std::string> mismatched;  ///< "NAME: expected [2, 3], found [3, 2]"

  bool none() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};

/// Compares names and shapes; dtypes may differ, as loading converts.
WeightDifferences compare_weights(std::span<const NamedParameter> parameters, const WeightFile& weights);

/// Copies tensors into the parameters of the same names, converted to the parameters' dtype block by block:
/// no whole tensor is held a second time. Parameters without a tensor and tensors without a parameter are
/// left alone: compare_weights() tells. Throws CheckpointError where shapes differ, before anything is
/// changed.
void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights);

}  // namespace moh
