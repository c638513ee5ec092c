#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "models/forward_context.h"
#include "models/layers/conv2d.h"
#include "models/layers/head_routing.h"
#include "models/layers/layer_norm.h"
#include "models/layers/linear.h"
#include "models/layers/output_gate.h"
#include "models/recompute_level.h"
#include "models/vision/relative_positions.h"
#include "ops/attention/aggregated_attention.h"

namespace moh {

/// The operands that all attention layers of a stage share in one forward pass.
struct StageGrid {
  GridSize tokens, pooled;
  RelativePositions
      positions;  ///< of the tokens to the pooled ones, on the device of the model, in its dtype
};

/// Sizes of a TransNextAttention layer.
struct TransNextAttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;    ///< heads * head_dim may differ from width
  bool single_kv_head = false;  ///< all heads share one key and one value head
  std::int64_t window = 3;  ///< side of the square of neighbours; 0: full attention, without pooled tokens
  std::int64_t kept_keys = 100;  ///< percent that each query keeps, those of the largest logits
  HeadRoutingOptions routing;    ///< with router.heads = heads; kind kNone for a dense layer
  std::int64_t layer = 0;        ///< number of the layer in the model, for ForwardContext
  AttentionGate gate = AttentionGate::kNone;
  RecomputeLevel recompute = RecomputeLevel::kNone;
};

/// Attention of TransNeXt (Shi 2023, arXiv 2311.17132), Mixture-of-Head or dense: aggregated attention over
/// the window and the pooled tokens, or full attention (ops/attention/aggregated_attention.h). Pooled tokens
/// are norm( average over cells of gelu(sr(x))). Parameters are named as in the released MoH-ViT: `q`, `kv`,
/// `proj`, `sr`, `norm` and those of the window, or `qkv` and `proj`; `cpb_fc1`, `cpb_fc2`, the network of
/// position biases; and those of OutputGate and HeadRouter.
class TransNextAttention : public Module {
 public:
  /// Throws as require_packed() and HeadRouter do.
  TransNextAttention(const TransNextAttentionOptions& options, Placement placement);

  /// x [B, N, D], the tokens of `grid` row by row, to [B, N, D].
  LayerOutput forward(const Variable& x, const StageGrid& grid, const ForwardContext& context = {}) const;

  /// Null in a dense layer.
  const HeadRouter* router() const { return router_ ? &*router_ : nullptr; }
  HeadRouter* router() { return router_ ? &*router_ : nullptr; }

 private:
  /// The parameters of aggregated attention that full attention has not.
  struct Window : Module {
    Window(const TransNextAttentionOptions& options, Placement placement);
    Variable bias, tokens, token_bias;
  };
  struct Pool : Module {
    Pool(const TransNextAttentionOptions& options, Placement placement);
    Linear q, kv;
    Conv2d sr;
    LayerNorm norm;
  };

  /// Queries, keys and values: in full attention all of them packed in `q`.
  struct Operands {
    Variable q, local, pooled;
    CosineParameters cosine;
  };

  Variable queries_of(const Variable& x, const HeadChoice* choice) const;
  Variable kv_heads_of(const Variable& kv) const;
  Operands operands_of(const Variable& x, const StageGrid& grid, const HeadChoice* choice) const;
  Variable heads_of(const Operands& in, const StageGrid& grid, const HeadChoice* choice) const;
  /// Frees what the options say until the backward pass reads it.
  void recompute(const Variable& x, const StageGrid& grid, const Operands& in, const Variable& heads,
                 const HeadChoice* choice) const;
  void show(AttentionObserver& observer, const Variable& x, const StageGrid& grid, const Operands& in,
            const Variable& heads, const HeadChoice* choice) const;
  Variable pooled(const Variable& x, const StageGrid& grid) const;

  TransNextAttentionOptions options_;
  Variable temperature_, query_embedding_;
  std::unique_ptr<Window> window_;  // these two in aggregated attention only
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Linear> qkv_;  // in full attention only
  Linear proj_, cpb_fc1_, cpb_fc2_;
  OutputGate output_gate_;
  std::optional<HeadRouter> router_;  // absent in a dense layer
};

}  // namespace moh
