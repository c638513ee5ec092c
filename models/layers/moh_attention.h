#pragma once

#include "models/layers/head_routing.h"
#include "models/layers/linear.h"

namespace moh {

/// Sizes of a MohAttention layer. heads * head_dim may differ from width.
struct MohAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  HeadRoutingOptions routing;  ///< kLearned; its head count is `heads`
};

/// Mixture-of-Head self-attention as vision and diffusion transformers use it (arXiv 2410.11842, section 3):
/// every token sees all tokens, queries, keys and values come from one projection with bias. Parameters:
/// `qkv` [3 H d, D] ordered [q | k | v][head][d], `proj` [D, H d], and those of HeadRouter, under the names
/// of the released MoH-DiT.
class MohAttention : public Module {
 public:
  MohAttention(const MohAttentionOptions& options, Placement placement);

  /// x [B, N, D] to [B, N, D]. `forced_top` as in route_heads.
  LayerOutput forward(const Variable& x, const Tensor& forced_top = {}) const;

 private:
  std::int64_t head_dim_;
  Linear qkv_, proj_;
  HeadRouter router_;
};

}  // namespace moh
