#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/family.h"
#include "train/weights/locate_model.h"

namespace moh {

/// A stored model: its weights and, if present, its configuration.
struct ModelSource {
  std::unique_ptr<WeightFile> weights;
  /// The configuration stored with the weights, of which only `model` is meaningful; null if there is none (a
  /// bare tensor file).
  std::unique_ptr<FamilyConfig> model;
  std::filesystem::path config;  ///< the file with that configuration, or the weights that are known by it

  /// Throws CheckpointError if tensors of `model` are missing or have other shapes: then configuration and
  /// weights contradict each other. Additional tensors are left to the caller that loads.
  void check_described(const Families& families) const;
};

/// Reads the configuration: a config.json that one of the families recognises, or the YAML of a run. Throws
/// ConfigError for a config.json of a model that moh does not support. If the location has none, that of the
/// model whose tensors these are (WeightNames::published_model, or model_in() if tensors tell all of it), or
/// null.
/// `part` as in open_weights().
std::unique_ptr<FamilyConfig> read_model_config(const ModelLocation& location, const Families& families,
                                                const std::string& part = {});

/// The description that tensors give of a model that comes without a configuration.
struct TensorModel {
  std::unique_ptr<FamilyConfig> model;  ///< null: no family has such tensors
  std::vector<std::string> untold;      ///< keys of `model` that they leave open
};
TensorModel model_in_tensors(const WeightFile& weights, const Families& families);
/// Throws ConfigError, naming `weights` and the keys that nobody gives, unless `given` is true of each of
/// them.
void require_told(const std::filesystem::path& weights, const TensorModel& model,
                  FunctionRef<bool(std::string_view key)> given);

/// The settings by which a checkpoint is used with the files that it carries (WeightNames::settings_in); they
/// come before those that a user gives. Throws ConfigError.
std::vector<std::string> settings_of_checkpoint(const std::filesystem::path& step_folder,
                                                const Families& families);

/// The keys that a run's YAML leaves at their defaults although they cannot be inferred from the weights
/// (FieldProperty::kUnseenInWeights), with their values: "model.heads 8, model.norm_eps 1e-05". Throws
/// ConfigError.
std::string assumed_values(const std::filesystem::path& yaml, const Families& families);

/// Opens the model of init.from. Throws as read_model_config() and open_weights(), naming that key.
ModelSource open_init_source(const RunConfig& run, const Families& families);

/// The run of a file, with the model of init.from if the file does not describe one
/// (RunFile::leaves_model_open) and there is a configuration with those weights. Throws as RunFile::finish()
/// and open_init_source(), and ConfigError if neither describes the model.
RunConfig finish_run(RunFile& file, const Families& families, ConfigUse use);

}  // namespace moh
