#pragma once

#include <string>
#include <vector>

#include "train/config/fields.h"
#include "train/config/run_config.h"

namespace moh::config {

/// The field list of a run: the one place that says how each key is called, what it may hold and what it
/// means. Points into `run`. `presets` are the names for model.preset besides "none".
Section describe(RunConfig& run, const std::vector<std::string>& presets);

/// That of its section `model` alone.
Section describe(ModelConfig& model, const std::vector<std::string>& presets);

}  // namespace moh::config
