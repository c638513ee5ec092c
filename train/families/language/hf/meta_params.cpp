#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "train/config/fields.h"
#include "train/families/language/hf/hf_config.h"
#include "train/weights/hf/config_json.h"

namespace moh {

namespace {

using config::kMaxHeads;
using config::kMaxLayers;
using config::kMaxLength;
using config::kMaxVocab;
using config::kMaxWidth;

/// Width of the MLP in Meta's code: 2/3 of 4 dim, times a factor, up to the next multiple.
std::int64_t intermediate_of(const ConfigJson& json, std::int64_t dim) {
  const std::int64_t multiple = json.has("multiple_of") ? json.integer("multiple_of", 1, kMaxWidth) : 256;
  const double factor = json.number_or("ffn_dim_multiplier", 1);
  if (!(factor > 0 && factor < 1024))
    json.damaged("ffn_dim_multiplier", "above 0", json.shown("ffn_dim_multiplier"));
  const std::int64_t two_thirds = 8 * dim / 3;  // rounded down before the factor, as there
  const auto width = static_cast<std::int64_t>(factor * static_cast<double>(two_thirds));
  return (width + multiple - 1) / multiple * multiple;
}

/// The context length of the model that these values are of.
std::int64_t trained_positions(const ConfigJson& json, const LlamaConfig& model) {
  if (json.has("max_seq_len")) return json.integer("max_seq_len", 1, kMaxLength);
  if (model.rope_scaling.kind != RopeScalingKind::kNone) return 131072;
  if (model.rope_theta >= 1e6) return 16384;
  if (model.rope_theta >= 5e5) return 8192;
  constexpr double kEpsOfLlama1 = 1e-6;
  return model.norm_eps > 2 * kEpsOfLlama1 ? 4096 : 2048;
}

/// LLaMA 3.2's small models have a factor of their own, which not all of their files name.
RopeScaling scaling_of(const ConfigJson& json, const LlamaConfig& model) {
  if (!json.truth_or("use_scaled_rope", false)) return {};
  const bool is_small_3_2 =
      (model.hidden == 2048 && model.layers == 16) || (model.hidden == 3072 && model.layers == 28);
  RopeScaling scaling{.kind = RopeScalingKind::kLlama3, .factor = is_small_3_2 ? 32.0 : 8.0};
  for (const auto& [key, value] : {std::pair{"rope_scaling_factor", &scaling.factor},
                                   {"rope_high_freq_factor", &scaling.high_freq_factor}}) {
    if (json.has(key)) *value = json.number(key);
    if (!(*value > 1)) json.damaged(key, "above 1", json.shown(key));
  }
  return scaling;
}

void refuse_other_models(const ConfigJson& json) {
  for (const char* key :
       {"moe", "moe_args", "vision_chunk_size", "vision_args", "quantization_args", "lora_args"}) {
    if (json.has(key)) json.unsupported(key, "no such key", json.shown(key), "moh has no such model");
  }
}

}  // namespace

LlamaConfig read_meta_params(const std::filesystem::path& params_json, std::int64_t vocab_size) {
  const ConfigJson json(params_json);
  refuse_other_models(json);
  LlamaConfig model;
  model.vocab_size = vocab_size;
  if (json.has("vocab_size")) {
    const std::int64_t stated = json.integer("vocab_size", -1, kMaxVocab);
    if (stated != -1 && stated != vocab_size)
      json.damaged("vocab_size", std::to_string(vocab_size) + ", the rows of tok_embeddings, or -1",
                   std::to_string(stated));
  }
  model.hidden = json.integer("dim", 1, kMaxWidth);
  model.layers = json.integer("n_layers", 1, kMaxLayers);
  model.heads = json.integer("n_heads", 1, kMaxHeads);
  model.kv_heads = json.has("n_kv_heads") ? json.integer("n_kv_heads", 1, kMaxHeads) : model.heads;
  model.head_dim = json.has("head_dim") ? json.integer("head_dim", 1, kMaxWidth) : model.hidden / model.heads;
  model.intermediate = intermediate_of(json, model.hidden);
  model.norm_eps = json.has("norm_eps") ? json.number("norm_eps") : model.norm_eps;
  model.rope_theta = json.number_or("rope_theta", model.rope_theta);
  model.rope_scaling = scaling_of(json, model);
  model.max_positions = trained_positions(json, model);
  require_supported(model, params_json);
  return model;
}

}  // namespace moh
