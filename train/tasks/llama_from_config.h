#pragma once

#include "core/dtype.h"
#include "models/llm/llama_config.h"
#include "train/config/run_config.h"

namespace moh {

/// The model that a run's configuration describes.
LlamaConfig llama_config_of(const ModelConfig& config);

/// The published models and those of checkpoints, for load_run_config.
const ModelPresets& llama_model_presets();

/// float32 or bfloat16.
DType dtype_of_precision(Precision precision);

}  // namespace moh
