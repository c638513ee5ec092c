#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "models/llm/llama_config.h"

namespace moh {

/// Whether read_hf_config() reads a `model_type`, or says why it does not.
bool is_language_model_type(std::string_view type);

/// Reads a config.json as Hugging Face's transformers writes it, of model type `llama` (LLaMA 1, 2, 3, 3.1;
/// rotary positions as `rope_theta` and `rope_scaling`, or as `rope_parameters`), `mistral` where no window
/// hides anything, or `moh_llama`, as write_hf_model_files() writes it. A key that is absent means what it
/// means to transformers. What concerns training alone (dropout, recomputation) has its default; kv_heads and
/// head_dim are spelt out.
///
/// The file is untrusted: size, depth, types and ranges are checked, and no key may stand twice. Throws
/// CheckpointError for a file that is damaged or missing, ConfigError for a model that moh cannot compute.
LlamaConfig read_hf_config(const std::filesystem::path& config_json);

/// Tokens that begin, end and pad a text. They belong to the tokenizer; config.json repeats them.
struct HfTokenIds {
  std::optional<std::int64_t> bos, pad;
  std::vector<std::int64_t> eos;  ///< any of them ends a text

  bool operator==(const HfTokenIds&) const = default;
};

/// The tokens that a config.json names. Throws CheckpointError.
HfTokenIds read_hf_token_ids(const std::filesystem::path& config_json);

}  // namespace moh
