#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "models/llm/llama.h"
#include "train/checkpoint/stored_checkpoint.h"
#include "train/config/run_config.h"
#include "train/data/tokenizer.h"

namespace moh {

/// A trained language model, as `moh eval` and `moh generate` use it, on the device of `config`.
struct LanguageModel {
  std::filesystem::path folder;  ///< the step folder that was read
  RunConfig config;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Llama> model;
};

/// Reads a checkpoint: a run folder (the newest), a `checkpoints` folder, or one step's folder. Everything is
/// verified first. `overrides` change the configuration that lies beside the model. Throws CheckpointError,
/// ConfigError, DeviceError.
LanguageModel load_language_model(const std::filesystem::path& path,
                                  const std::vector<std::string>& overrides = {});

/// Copies a checkpoint's model into the parameters of the same names. Throws CheckpointError listing
/// everything that is missing, too much, or of another shape or dtype, before anything is changed.
void load_parameters(const Module& model, const StoredCheckpoint& checkpoint, std::string_view where);

}  // namespace moh
