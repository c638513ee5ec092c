#pragma once

#include <cstdint>
#include <optional>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/layers/linear.h"

namespace moh {

/// Sizes of a MohAttention layer. heads * head_dim may differ from width.
struct MohAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  HeadRoutingOptions routing;  ///< kLearned, its head count is `heads`; or kNone for a dense layer
  std::int64_t layer = 0;      ///< its number in the model, for ForwardContext
};

/// Self-attention, Mixture-of-Head or dense, as vision and diffusion transformers use it (arXiv 2410.11842,
/// section 3): every token sees all tokens, queries, keys and values come from one projection with bias.
/// Parameters: `qkv` [3 H d, D] ordered [q | k | v][head][d], `proj` [D, H d], and those of HeadRouter, under
/// the names of the released MoH-DiT.
class MohAttention : public Module {
 public:
  /// Throws ValueError for RouterKind::kQueryNorm, and as HeadRouter does.
  MohAttention(const MohAttentionOptions& options, Placement placement);

  /// x [B, N, D] to [B, N, D].
  LayerOutput forward(const Variable& x, const ForwardContext& context = {}) const;

  /// Null in a dense layer.
  const HeadRouter* router() const { return router_ ? &*router_ : nullptr; }

 private:
  void show(AttentionObserver& observer, const Variable& x, const Variable& qkv, const Variable& heads,
            const HeadChoice* choice) const;

  std::int64_t layer_, heads_, head_dim_;
  Linear qkv_, proj_;
  std::optional<HeadRouter> router_;  // absent in a dense layer
};

}  // namespace moh
