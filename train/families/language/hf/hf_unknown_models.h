#pragma once

#include "train/weights/hf/config_json.h"

namespace moh {

/// Refuses, by name, keys of a config.json that would change the result if they were passed over: options of
/// transformers that moh does not have, and keys with which other models, and code that a folder brings,
/// change what a LLaMA computes. Keys with the values that change nothing pass. Throws ConfigError.
void refuse_unknown_models(const ConfigJson& json);

}  // namespace moh
