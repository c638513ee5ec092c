#pragma once

#include "models/llm/llama_config.h"
#include "train/config/fields.h"

namespace moh::config {

/// Adds the fields of a LlamaConfig to the section `model`.
void describe(LlamaConfig& config, Section& section);

}  // namespace moh::config
