#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/head_routing.h"
#include "ops/rope/rope_scaling.h"

namespace moh {

/// Routing of all layers of a model. Per-layer values have one entry for all layers, or one per layer.
struct MohConfig {
  RouterKind router = RouterKind::kNone;
  std::vector<std::int64_t> shared = {0};  ///< heads that are always on
  /// Which heads are shared: nothing for the first ones, one list for all layers, or a list per layer.
  std::vector<std::vector<std::int64_t>> shared_heads = {};
  std::vector<std::int64_t> top_k = {0};  ///< routed heads that each token keeps
  GateScaling scaling = GateScaling::kCode;
  bool two_stage = true;
  StraightThrough straight_through = StraightThrough::kSelected;
  BalanceLoss balance_loss = BalanceLoss::kCode;
  RouterPrecision router_precision = RouterPrecision::kSame;
};

/// A decoder of the LLaMA family: pre-norm RMSNorm, rotary embedding, SwiGLU, no biases, grouped KV heads.
struct LlamaConfig {
  std::int64_t vocab_size = 0;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 2048;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  double norm_eps = 1e-5;
  bool tied_embeddings = false;
  double dropout = 0.0;    ///< of the two residual branches
  double init_std = 0.02;  ///< of all matrices; output projections get init_std / sqrt(2 layers)
  bool recompute = false;  ///< keep only the inputs of the layers for the backward pass
  MohConfig moh;
};

/// Throws ValueError, naming the field, when fields are out of range or contradict each other.
void check(const LlamaConfig& config);

/// Routing of layer `layer`.
HeadRoutingOptions routing_of(const LlamaConfig& config, std::int64_t layer);

/// Share of the attention heads that are active: sum of selected heads over sum of heads (the paper's
/// "activated"); in training, of those that are computed (computed_heads).
double activated_heads(const LlamaConfig& config, bool training = false);

}  // namespace moh
