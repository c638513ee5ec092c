#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/layers/linear.h"
#include "models/layers/output_gate.h"
#include "models/layers/residual_stream.h"
#include "models/layers/rms_norm.h"
#include "models/layers/switch_head.h"
#include "models/llm/kv_cache.h"
#include "models/llm/llama_config.h"
#include "models/llm/routed_keys.h"
#include "ops/attention/attention.h"
#include "ops/rope/rope.h"

namespace moh {

/// Shapes: B sequences, T tokens, D hidden, H query heads, G KV heads, d head width.

/// A piece of a text in a pass over pieces of several: tokens [begin, begin + count) of the pass, which
/// continue those in the text's cache, of batch 1, and are appended to it.
struct PieceOfText {
  std::int64_t begin = 0, count = 0;
  LayerCache* cache = nullptr;
};

/// Attention of a LLaMA layer, dense or Mixture-of-Head. Parameters as in Hugging Face checkpoints: `q_proj`,
/// `k_proj`, `v_proj`, `o_proj`, with qk_norm `q_norm` and `k_norm`, and those of OutputGate, HeadRouter and
/// SwitchHead.
/// A query-norm router looks at the queries as projected, with their bias, before q_norm: normalised ones
/// have nearly one length, and say nothing of a head's weight.
class LlamaAttention : public Module {
 public:
  LlamaAttention(const LlamaConfig& config, std::int64_t layer, Placement placement);

  /// x [B, T, D], the layer's input after its norm, to [B, T, D]; `table` begins with the first token's row.
  LayerOutput forward(const Variable& x, const RopeTable& table, const ForwardContext& context = {}) const;
  /// forward() without gradients, for tokens that continue those in `cache` and are appended to it, with the
  /// table's rows for them. Keys and values of all heads are stored; only those of selected heads are read.
  /// With routed keys only these are stored, and the table is as in RoutedKeys::decode.
  Variable decode(const Variable& x, const RopeTable& table, LayerCache& cache) const;
  /// decode() for pieces of several texts: x [1, N, D], and a row of the table for each of the N tokens.
  Variable decode_each(const Variable& x, const RopeTable& table, std::span<const PieceOfText> pieces) const;

  /// Null in a dense layer.
  const HeadRouter* router() const { return router_ ? &*router_ : nullptr; }
  HeadRouter* router() { return router_ ? &*router_ : nullptr; }
  /// Null unless keys and values are routed, too (RoutedRows).
  const RoutedKeys* routed_keys() const { return routed_keys_ ? &*routed_keys_ : nullptr; }

 private:
  LlamaAttention(const LlamaConfig& config, std::int64_t layer, Placement placement,
                 const std::vector<LinearParameterPair>& qkv);

  struct Projections {
    /// [B, T, H, d], [B, T, G, d] twice; q and k after norm and rotary embedding, but not those of
    /// routed_heads().
    Variable q, k, v;
    Variable qkv;  ///< [B, T, H + 2 G, d], in place of these where packs() says so
    std::optional<HeadChoice> choice;

    /// Without the graphs that computed them.
    Projections detached() const;
  };
  Projections project(const Variable& x, const RopeTable& table, const ForwardContext& context) const;
  bool packs(const Projections& p, const ForwardContext& context) const;
  /// Projections::qkv of x [B, T, D]: keys, and the queries that are `selected`, uint8 [B, T, H], or all if
  /// it is undefined, at their positions.
  Variable packed_heads(const Variable& x, const RopeTable& table, const Tensor& starts,
                        const Tensor& selected) const;
  /// Attention of the projections, but not of routed_heads().
  Variable attended(const Projections& p, const AttentionOptions& options) const;

  /// The heads of queries q [B, T, H, d] over cached keys, of `choice` where there is a router.
  Tensor attend_cache(const Tensor& q, const LayerCache::Keys& keys, const HeadChoice* choice) const;
  /// The heads of a piece of decode_each, [1, count, H, d].
  Tensor decode_piece(const Projections& p, const RopeTable& table, const PieceOfText& piece) const;
  /// The layer's output in decoding, from that of attention, [B, T, H, d].
  Variable decoded(const Variable& x, const Tensor& heads, const Projections& p) const;

  /// The output projection of heads [B, T, H, d].
  Variable projected(const Variable& x, const Variable& heads, const Projections& p, bool equal_rows) const;

  /// Whether the projections are those of RoutedKeys.
  bool has_routed_keys(const Projections& p) const { return routed_keys_ && p.choice; }
  /// Whether attention's outputs are those of the heads.
  static bool has_heads(const Projections& p) { return !p.choice || p.choice->rule->keeps_heads(); }
  RoutedKeys::Heads routed_heads(const Projections& p) const;

  void show(const ForwardContext& context, const Variable& x, const Projections& p,
            const Tensor& heads) const;

  RecomputeLevel recompute_;
  std::int64_t layer_, heads_, kv_heads_, head_dim_, window_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  OutputGate output_gate_;
  std::optional<RmsNorm> q_norm_, k_norm_;  // absent without qk_norm
  std::optional<HeadRouter> router_;        // absent in a dense layer
  std::optional<RoutedKeys> routed_keys_;
  std::optional<SwitchHead> switch_head_;  // absent without experts
};

/// SwiGLU MLP: down_proj(silu(gate_proj(x)) * up_proj(x)), x [B, T, D] to [B, T, D].
class LlamaMlp : public Module {
 public:
  LlamaMlp(const LlamaConfig& config, Placement placement);
  Variable operator()(const Variable& x) const;

 private:
  LlamaMlp(const LlamaConfig& config, Placement placement, const std::vector<LinearParameterPair>& gate_up);

  RecomputeLevel recompute_;
  Linear gate_proj_, up_proj_, down_proj_;
};

/// x += attention(norm(x)); x += mlp(norm(x)), each branch with dropout when training.
class LlamaLayer : public Module {
 public:
  LlamaLayer(const LlamaConfig& config, std::int64_t layer, Placement placement);

  StreamOutput forward(ResidualStream stream, const RopeTable& table, const ForwardContext& context) const;
  Variable decode(const Variable& x, const RopeTable& table, LayerCache& cache) const;
  Variable decode_each(const Variable& x, const RopeTable& table, std::span<const PieceOfText> pieces) const;

  const HeadRouter* router() const { return self_attn_.router(); }
  HeadRouter* router() { return self_attn_.router(); }
  const RoutedKeys* routed_keys() const { return self_attn_.routed_keys(); }

 private:
  /// The layer's part after attention, in decoding.
  Variable after_attention(const Variable& x, const Variable& attention) const;

  double dropout_;
  RecomputeLevel recompute_;
  RmsNorm input_layernorm_;
  LlamaAttention self_attn_;
  RmsNorm post_attention_layernorm_;
  LlamaMlp mlp_;
};

}  // namespace moh
