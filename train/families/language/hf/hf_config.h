#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "models/llm/llama_config.h"

namespace moh {

/// The key, and its only value, of a moh_llama whose routers are float32 in a model of another precision.
/// The routers and rules that modeling_moh_llama.py computes.
inline constexpr RouterKey kHfRouters[] = {routers::kNone, routers::kLearned, routers::kQueryNorm};
inline constexpr RoutingKey kHfRoutings[] = {routings::kHeads, routings::kGroups, routings::kWithinGroups};

inline constexpr std::string_view kRouterDtype = "moh_router_dtype", kRouterFloat32 = "float32";

/// Whether read_hf_config() supports a `model_type`, or has a specific error message for it.
bool is_language_model_type(std::string_view type);

/// Reads a config.json as Hugging Face's transformers writes it, of model type `llama` (LLaMA 1, 2, 3, 3.1;
/// rotary embedding as `rope_theta` and `rope_scaling`, or as `rope_parameters`), `mistral`, `qwen2` or
/// `qwen3`, with their sliding windows, or `moh_llama`, as write_hf_model_files() writes it. With
/// dynamic RoPE scaling max_positions is max_position_embeddings times the factor. Absent keys have the
/// defaults of transformers. Options of training (dropout, recomputation) get moh's defaults; kv_heads and
/// head_dim are never 0.
///
/// The file is untrusted: size, depth, types and ranges are checked, and duplicate keys refused. Throws
/// CheckpointError for a file that is damaged or missing, ConfigError for a model that moh does not support.
LlamaConfig read_hf_config(const std::filesystem::path& config_json);

/// Throws ConfigError for a model that moh cannot compute, naming the file that describes it.
void require_supported(const LlamaConfig& model, const std::filesystem::path& described_by);

/// Reads the params.json that Meta's own code writes beside the weights of a LLaMA 1, 2 or 3. It names no
/// context length: 131072 with scaled RoPE, else that of LLaMA 3, Code Llama, 2 or 1 by rope_theta and
/// norm_eps. `vocab_size` is the number of rows of the embedding, as some files leave it out (-1). Throws as
/// read_hf_config().
LlamaConfig read_meta_params(const std::filesystem::path& params_json, std::int64_t vocab_size);

/// Ids of the tokens at the beginning and end of a text, and for padding. They belong to the tokenizer;
/// config.json repeats them.
struct HfTokenIds {
  std::optional<std::int64_t> bos, pad;
  std::vector<std::int64_t> eos;  ///< any of them ends a text

  bool operator==(const HfTokenIds&) const = default;
};

/// The token ids of a config.json. Throws CheckpointError.
HfTokenIds read_hf_token_ids(const std::filesystem::path& config_json);

}  // namespace moh
