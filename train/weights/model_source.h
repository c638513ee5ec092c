#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/module.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/run_config.h"
#include "train/weights/weight_file.h"

namespace moh {

/// A model as somebody left it on a disk.
struct ModelSource {
  std::unique_ptr<WeightFile> weights;
  /// What the configuration beside the weights says; nothing where there is none (a bare tensor file).
  std::optional<ModelConfig> model;
};

/// Where a model lies.
struct ModelLocation {
  std::filesystem::path weights;  ///< a file, or the step folder of a checkpoint
  std::filesystem::path config;   ///< config.json or a run's YAML; empty where there is none
  bool is_checkpoint = false;     ///< of moh: `weights` is a step folder
};

/// What a user means by `path`: a safetensors file, the index of a sharded one, a PyTorch file, a Hugging
/// Face folder with one of them (safetensors before PyTorch, as the Hugging Face libraries choose), or a
/// checkpoint of moh (a run folder, a `checkpoints` folder or one step's folder). Throws CheckpointError.
ModelLocation locate_model(const std::filesystem::path& path);

/// Opens the tensors alone. What a file is, its contents say. `part` chooses among the models that one
/// PyTorch file may hold ("model", "ema"); empty: the only one, or the one that the released code would load.
/// Throws CheckpointError, and ConfigError for a part of a file that has none.
std::unique_ptr<WeightFile> open_weights(const ModelLocation& location, const std::string& part = {});

/// Reads the configuration: a config.json, or the YAML of a run. Throws ConfigError for a config.json that
/// describes what moh has not.
std::optional<ModelConfig> read_model_config(const ModelLocation& location);

/// All three: what locate_model() says of `path`, with its configuration.
ModelSource open_model_source(const std::filesystem::path& path, const std::string& part = {});

/// Names in which a model and a weight file differ.
struct WeightDifferences {
  std::vector<std::string> missing;     ///< parameters without a tensor
  std::vector<std::string> unexpected;  ///< tensors without a parameter
  std::vector<std::string> mismatched;  ///< "NAME: expected [2, 3], found [3, 2]"
  /// Tensors without a parameter that say nothing new: tables of rotary frequencies, which moh computes, and
  /// an output matrix that equals the tied embedding, bit for bit. No difference.
  std::vector<std::string> redundant;

  bool none() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};

/// Names, shapes and dtypes of parameters, in their order. Those of a model of any size are found without its
/// memory by making it in a dry run (core/dry_run.h).
std::vector<TensorSpec> tensors_of(std::span<const NamedParameter> parameters);

/// Compares names and shapes; dtypes may differ, as loading converts.
WeightDifferences compare_weights(std::span<const NamedParameter> parameters, const WeightFile& weights);
WeightDifferences compare_weights(std::span<const TensorSpec> parameters, const WeightFile& weights);

/// "12 missing, 1 unexpected": what differs, by kind.
std::string describe(const WeightDifferences& differences);
/// The same with a line for each name; those that differ in their numbers alone share one (fold_names.h).
std::string list(const WeightDifferences& differences);

/// Copies tensors into the parameters of the same names, converted to the parameters' dtype block by block:
/// no whole tensor is held a second time. Parameters without a tensor and tensors without a parameter are
/// left alone: compare_weights() tells. Throws CheckpointError where a shape differs or a type does not
/// convert (element_conversion.h), before anything is changed.
void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights);

}  // namespace moh
