#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/attention_gate.h"
#include "models/layers/moh_config.h"
#include "models/layers/per_layer.h"
#include "models/layers/switch_head_config.h"
#include "models/llm/lora.h"
#include "models/recompute_level.h"
#include "ops/rope/rope_scaling.h"

namespace moh {

/// A decoder of the LLaMA family: pre-norm RMSNorm, rotary embedding, SwiGLU, grouped KV heads; with biases
/// and normalised queries and keys where set, as in Qwen 2 (qkv_bias) and Qwen 3 (qk_norm), and with sliding
/// windows, as in Mistral.
struct LlamaConfig {
  std::int64_t vocab_size = 256;
  std::int64_t layers = 6;
  std::int64_t hidden = 256;
  std::int64_t intermediate = 704;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;  ///< 0: as many as `heads`
  std::int64_t head_dim = 0;  ///< 0: hidden / heads
  std::int64_t max_positions = 2048;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  /// Tokens that a query sees, itself and those before it, of each layer; 0: all
  PerLayer sliding_window;
  bool tied_embeddings = false;
  bool qkv_bias = false;  ///< q_proj, k_proj and v_proj add a bias
  bool o_bias = false;    ///< o_proj adds a bias
  bool mlp_bias = false;  ///< gate_proj, up_proj and down_proj add a bias
  bool qk_norm = false;   ///< RMSNorm of each head's queries and keys (q_norm, k_norm) before the rotation
  AttentionGate attention_gate = AttentionGate::kNone;
  SwitchHeadConfig switch_head;
  double dropout = 0;      ///< of the two residual branches
  double init_std = 0.02;  ///< of all matrices; output projections get init_std / sqrt(2 layers)
  RecomputeLevel recompute = RecomputeLevel::kNone;
  LoraConfig lora;
  MohConfig moh;

  bool operator==(const LlamaConfig&) const = default;
};

/// The config with the values that kv_heads = 0 and head_dim = 0 stand for, and lists of equal windows as
/// one.
LlamaConfig spelt_out(LlamaConfig config);

/// Reports values that are out of range or inconsistent.
void check(const LlamaConfig& config, ConfigFaults& faults);

/// Throws ValueError for the first fault that check() reports.
void require_valid(const LlamaConfig& config);

/// Routing of layer number `layer`; routing of all layers.
HeadRoutingOptions routing_of(const LlamaConfig& config, std::int64_t layer);
std::vector<HeadRoutingOptions> routing_of(const LlamaConfig& config);

}  // namespace moh
