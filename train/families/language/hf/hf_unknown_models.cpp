#include "train/families/language/hf/hf_unknown_models.h"

#include <string>
#include <string_view>

#include "train/base/io/printable.h"

namespace moh {

namespace {

/// Factors of embeddings, residuals and logits, bounds and counts, with the number that changes nothing.
struct NeutralNumber {
  std::string_view key;
  double neutral;
};
constexpr NeutralNumber kNumbers[] = {{"partial_rotary_factor", 1},  {"logit_scale", 1},
                                      {"logits_scaling", 1},         {"embedding_multiplier", 1},
                                      {"residual_multiplier", 1},    {"final_logit_softcapping", 0},
                                      {"attn_logit_softcapping", 0}, {"clip_qkv", 0},
                                      {"attention_chunk_size", 0},   {"num_experts", 0},
                                      {"num_local_experts", 0},      {"n_routed_experts", 0}};

/// Switches, with the position that changes nothing.
struct NeutralSwitch {
  std::string_view key;
  bool neutral;
};
constexpr NeutralSwitch kSwitches[] = {{"is_causal", true},
                                       {"use_bidirectional_attention", false},
                                       {"use_qk_norm", false},
                                       {"qk_layernorm", false},
                                       {"parallel_attn", false},
                                       {"use_parallel_residual", false},
                                       {"alibi", false},
                                       {"rope_interleaved", false},
                                       {"attn_temperature_tuning", false},
                                       {"attn_output_gate", false},
                                       {"headwise_attn_output_gate", false},
                                       {"elementwise_attn_output_gate", false}};

/// Keys that change the result whatever their value.
constexpr std::string_view kAny[] = {"quantization_config", "attention_multiplier", "query_pre_attn_scalar",
                                     "no_rope_layers"};

}  // namespace

void refuse_unknown_models(const ConfigJson& json) {
  const std::string activation = json.text_or("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    json.unsupported("hidden_act", "silu", printable(activation));
  for (const auto& [key, neutral] : kNumbers) {
    if (json.has(key) && json.number(key) != neutral)
      json.unsupported(key, std::to_string(static_cast<int>(neutral)), json.shown(key));
  }
  for (const auto& [key, neutral] : kSwitches) {
    if (json.truth_or(key, neutral) != neutral)
      json.unsupported(key, neutral ? "true" : "false", json.shown(key));
  }
  for (const std::string_view key : kAny) {
    if (json.has(key)) json.unsupported(key, "none", json.shown(key));
  }
}

}  // namespace moh
