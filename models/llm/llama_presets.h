#pragma once

#include <span>
#include <string_view>

#include "models/llm/llama_config.h"

namespace moh {

/// A published model, or a baseline of one, by name.
struct LlamaPreset {
  std::string_view name;
  LlamaConfig config;
  std::string_view origin;  ///< source of the sizes
};

/// llm_s, llm_b, llama3_8b, their MoH variants, and the dense models with as many heads as these have active,
/// in this order.
std::span<const LlamaPreset> llama_presets();

}  // namespace moh
