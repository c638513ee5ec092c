#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "models/llm/llama_config.h"

namespace moh {

/// The name that a parameter has in adapter_model.safetensors of PEFT (Hugging Face's library of adapters):
/// "base_model.model." and its own, for those that a run with model.lora trains; nothing for the others,
/// which are the base model's.
std::optional<std::string> peft_name(std::string_view parameter, const LlamaConfig& model);

/// Writes adapter_config.json, which PeftModel.from_pretrained reads beside adapter_model.safetensors: the
/// adapters, and as `modules_to_save` what is trained as a whole. For a MoH model, config.json and its code,
/// too, of which the base model is made (docs/continue_tuning.md); `dtype` is that of the base there. `base`
/// is the path that PEFT looks for the base at if a program names none, or empty. Throws ConfigError for a
/// model without adapters, and for what PEFT cannot put on top of the base: gates of attention, biases of the
/// selection, an output matrix that is tied to a trained embedding. StorageError.
void write_peft_files(const std::filesystem::path& folder, const LlamaConfig& model, std::string_view base,
                      std::string_view dtype);

}  // namespace moh
