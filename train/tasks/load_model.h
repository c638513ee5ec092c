#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/stored_checkpoint.h"
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
/// verified first. `overrides` change the configuration that lies beside the model. Throws CheckpointError,
/// ConfigError, DeviceError.
LoadedModel load_model(const std::filesystem::path& path, const Families& families,
                       const std::vector<std::string>& overrides = {}, ConfigUse use = ConfigUse::kModel);

/// Copies a checkpoint's model into the parameters of the same names. Throws CheckpointError listing
/// everything that is missing, too much, or of another shape or dtype, before anything is changed.
void load_parameters(const Module& model, const StoredCheckpoint& checkpoint, std::string_view where);

}  // namespace moh
