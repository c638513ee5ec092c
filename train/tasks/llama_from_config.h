#pragma once

#include <string_view>

#include "core/dtype.h"
#include "models/llm/llama_config.h"
#include "train/config/run_config.h"

namespace moh {

/// The model that a run's configuration describes.
LlamaConfig llama_config_of(const ModelConfig& config);

/// The configuration of a published model, one of models/llm/llama_presets.h: the inverse of llama_config_of.
ModelConfig model_config_of_preset(std::string_view name);

/// float32 or bfloat16.
DType dtype_of_precision(Precision precision);

}  // namespace moh
