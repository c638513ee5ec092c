#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/config/load_run_config.h"
#include "train/tasks/family.h"

namespace moh {

/// A model that was trained, as commands use it, on the device of `config`.
struct LoadedModel {
  std::filesystem::path folder;  ///< the step folder that was read
  RunConfig config;
  const Family* family = nullptr;
  std::unique_ptr<Model> model;
};

/// Reads a checkpoint: a run folder (the newest), a `checkpoints` folder, or one step's folder. Everything is
/// verified first. `overrides` change the configuration that lies beside the model. Throws CheckpointError
/// that lists everything that is missing, too much, or of another shape or dtype; ConfigError, DeviceError.
LoadedModel load_model(const std::filesystem::path& path, const Families& families,
                       const std::vector<std::string>& overrides = {}, ConfigUse use = ConfigUse::kModel);

}  // namespace moh
