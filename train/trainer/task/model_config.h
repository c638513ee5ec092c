#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/base/formats/weight_file.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/family.h"

namespace moh {

/// The model that a file describes: a config.json that one of the families recognises, or the YAML of a run
/// with `settings`, whose model may be that of its init.from. Only `model` of the result is meaningful.
/// Throws ConfigError, also for a config.json of a model that moh does not support, and CheckpointError.
std::unique_ptr<FamilyConfig> read_model_config(const std::filesystem::path& file, const Families& families,
                                                const std::vector<std::string>& settings = {});

/// The keys that a run's YAML leaves at their defaults although they cannot be inferred from the weights
/// (FieldProperty::kUnseenInWeights), with their values: "model.heads 8, model.norm_eps 1e-05". Throws
/// ConfigError.
std::string assumed_values(const std::filesystem::path& yaml, const Families& families);

/// The description that tensors give of a model that comes without a configuration.
struct TensorModel {
  std::unique_ptr<FamilyConfig> model;  ///< null: no family has such tensors
  std::vector<std::string> untold;      ///< keys of `model` that they leave open

  /// Throws ConfigError, naming `weights` and the keys that nobody gives, unless `given` is true of each key
  /// that is untold.
  void require_told(const std::filesystem::path& weights,
                    FunctionRef<bool(std::string_view key)> given) const;
};
TensorModel model_in_tensors(const WeightFile& weights, const Families& families);

/// Logs the notes of the file from number `first` on, as warnings.
void log_notes(const RunFile& file, std::size_t first = 0);

/// The run of a file, with the model of init.from if the file does not describe one
/// (RunFile::leaves_model_open) and there is a configuration with those weights. Throws as RunFile::finish()
/// and StoredModel::of_init(), and ConfigError if neither describes the model.
RunConfig finish_run(RunFile& file, const Families& families, ConfigUse use);

}  // namespace moh
