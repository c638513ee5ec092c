#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/config/load_run_config.h"
#include "train/tasks/family.h"

namespace moh::cli {

/// Opens the model that a run begins with, where its file leaves the model to init.from.
using OpenModel = std::function<std::unique_ptr<FamilyConfig>(const RunConfig& run)>;

/// The configuration that a command was given: reads the file, opens the checkpoint of init.from where that
/// decides the model, and logs keys that have another name today. Throws ConfigError, CheckpointError.
RunConfig read_run(const std::string& path, const std::vector<std::string>& overrides,
                   const Families& families, ConfigUse use);
/// The same with another way to find the model.
RunConfig read_run(const std::string& path, const std::vector<std::string>& overrides,
                   const Families& families, ConfigUse use, const OpenModel& open_model);

}  // namespace moh::cli
