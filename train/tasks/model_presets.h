#pragma once

#include "train/config/run_config.h"

namespace moh {

/// The published models and those of checkpoints, for load_run_config.
const ModelPresets& llama_model_presets();

}  // namespace moh
