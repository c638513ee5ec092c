#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "models/llm/llama_config.h"
#include "train/families/language/hf/hf_config.h"

namespace moh {

/// Writes the files that Hugging Face's transformers (4.50 and later, 5) needs besides the weights:
/// config.json, and for a MoH model its code, configuration_moh_llama.py and modeling_moh_llama.py, which
/// AutoModelForCausalLM loads with trust_remote_code=True. A dense model is a
/// LlamaForCausalLM, a Qwen2ForCausalLM (biases of q, k and v) or a Qwen3ForCausalLM (normalised queries and
/// keys); one that none of these computes has the code, too. Tensors keep moh's names; `dtype` is that of
/// their file as named in PyTorch ("bfloat16"), in which transformers opens the model. `folder` must exist;
/// files of these names are replaced. read_hf_config() reads the result back to the same model. Throws
/// ConfigError for a router or rule that this code does not compute, StorageError.
void write_hf_model_files(const std::filesystem::path& folder, const LlamaConfig& model,
                          std::string_view dtype, const HfTokenIds& tokens = {});

/// Whether transformers needs code for the model, as none of its own classes computes it.
bool has_moh_code(const LlamaConfig& model);

/// The text of generation_config.json, which tells `generate` the tokens that begin, end and pad a text.
std::string generation_config_text(const HfTokenIds& tokens);
/// Writes it. Throws StorageError.
void write_generation_config(const std::filesystem::path& folder, const HfTokenIds& tokens);

}  // namespace moh
