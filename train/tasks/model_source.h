#pragma once

#include <memory>

#include "train/config/load_run_config.h"
#include "train/tasks/family.h"
#include "train/weights/locate_model.h"

namespace moh {

/// A model as somebody left it on a disk.
struct ModelSource {
  std::unique_ptr<WeightFile> weights;
  /// What the configuration beside the weights says, of which `model` alone has a meaning; null where there
  /// is none (a bare tensor file).
  std::unique_ptr<FamilyConfig> model;
  std::filesystem::path config;  ///< which says so

  /// Throws CheckpointError where tensors are missing that `model` has, or have other shapes: nobody knows
  /// then which of the two is right. Tensors that it does not have are left to whoever loads.
  void check_described(const Families& families) const;
};

/// Reads the configuration: a config.json, which one of the families recognises, or the YAML of a run. Throws
/// ConfigError for a config.json that describes what moh has not. Null where the location has none.
std::unique_ptr<FamilyConfig> read_model_config(const ModelLocation& location, const Families& families);

/// What a run's YAML leaves to defaults although weights alone do not show it
/// (FamilyConfig::unseen_in_weights): "model.heads 8, model.norm_eps 1e-05". Throws ConfigError.
std::string assumed_values(const std::filesystem::path& yaml, const Families& families);

/// Opens what init.from of a run names. Throws as read_model_config() and open_weights(), saying that it was
/// that key.
ModelSource open_init_source(const RunConfig& run, const Families& families);

/// The run of a file, with the model of init.from where the file leaves that open
/// (RunFile::leaves_model_open) and a configuration lies beside the weights. Throws as RunFile::finish() and
/// open_init_source(), and ConfigError where neither says what the model is.
RunConfig finish_run(RunFile& file, const Families& families, ConfigUse use);

}  // namespace moh
