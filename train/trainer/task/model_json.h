#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "train/trainer/config/family_config.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// The section `model` of a family's configuration as the text of a JSON object with the keys and values of
/// the YAML, without `preset` and `recompute`: what the config.json of an export has as "model".
std::string model_json(const FamilyConfig& config);

/// The configuration whose section `model` is the object "model" of config.json; keys that it lacks have the
/// values of `defaults`. `file` is the path, for messages. Throws CheckpointError if there is no such object,
/// ConfigError for values that no run can have.
std::unique_ptr<FamilyConfig> read_model_json(const std::filesystem::path& file, const ConfigJson& json,
                                              const FamilyConfig& defaults);

/// Throws ConfigError, naming `folder`, for a router that moh_attention.py (train/families/images/export)
/// does not compute: one that a program has registered, as the file has no code for it.
void require_python_router(const std::filesystem::path& folder, const MohConfig& moh);

}  // namespace moh
