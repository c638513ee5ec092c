#pragma once

#include <cstdint>
#include <optional>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/layers/linear.h"
#include "models/layers/output_gate.h"
#include "models/recompute_level.h"

namespace moh {

/// Sizes of a MohAttention layer. heads * head_dim may differ from width.
struct MohAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  HeadRoutingOptions routing;  ///< with router.heads = heads; kind kNone for a dense layer
  std::int64_t layer = 0;      ///< number of the layer in the model, for ForwardContext
  std::int64_t kv_heads = 0;   ///< each shared by a group of heads; 0: as many as heads
  AttentionGate gate = AttentionGate::kNone;
  RecomputeLevel recompute = RecomputeLevel::kNone;
};

/// Self-attention of vision and diffusion transformers, Mixture-of-Head or dense (arXiv 2410.11842,
/// section 3): without a mask; queries, keys and values come from one projection with bias. Parameters:
/// `qkv` [(H + 2 G) d, D] ordered [q | k | v][head][d], `proj` [D, H d], and those of OutputGate and
/// HeadRouter, the latter named as in the released MoH-DiT.
class MohAttention : public Module {
 public:
  /// Throws as require_packed() and HeadRouter do.
  MohAttention(const MohAttentionOptions& options, Placement placement);

  /// x [B, N, D], N tokens, to [B, N, D]. A router that reads it takes the samples' `condition`, [B, D].
  LayerOutput forward(const Variable& x, const ForwardContext& context = {},
                      const Variable& condition = {}) const;

  /// Null in a dense layer.
  const HeadRouter* router() const { return router_ ? &*router_ : nullptr; }
  HeadRouter* router() { return router_ ? &*router_ : nullptr; }

 private:
  /// Attention of qkv [B, N, H + 2 G, d], [B, N, H, d].
  Variable attend(const Variable& qkv, const HeadChoice* choice) const;
  void show(AttentionObserver& observer, const Variable& x, const Variable& qkv, const Variable& heads,
            const HeadChoice* choice) const;

  RecomputeLevel recompute_;
  std::int64_t layer_, heads_, kv_heads_, head_dim_;
  Linear qkv_, proj_;
  OutputGate output_gate_;
  std::optional<HeadRouter> router_;  // absent in a dense layer
};

}  // namespace moh
