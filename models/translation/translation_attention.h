#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/layers/linear.h"
#include "models/layers/output_gate.h"
#include "models/llm/kv_cache.h"
#include "models/translation/decoding.h"
#include "models/translation/translation_config.h"
#include "ops/attention/attention.h"

namespace moh {

/// Shapes: T tokens of queries, S of keys, D hidden, H query heads, G KV heads, d head width.

/// Attention of a translation model, dense, Mixture-of-Head or MoA: self-attention of the encoder, causal
/// self-attention of the decoder, or cross-attention, as the inputs and the mask say. Parameters as in
/// fairseq: `q_proj`, `k_proj`, `v_proj`, `out_proj`, and those of OutputGate and HeadRouter. Routers and
/// gates read the queries' input, in cross-attention that of the decoder.
class TranslationAttention : public Module {
 public:
  TranslationAttention(const TranslationConfig& config, std::int64_t layer, Placement placement);

  /// Queries of x [1, T, D] over keys and values of `memory` [1, S, D]; undefined: of x itself. `mask` has
  /// the range of keys that each query sees. Returns [1, T, D]. In training, attention weights are dropped.
  LayerOutput forward(const Variable& x, const Variable& memory, const AttentionOptions& mask,
                      const ForwardContext& context = {}) const;

  /// Self-attention without gradients of x [R, 1, D], a token of each of R rows, which continues the row's
  /// tokens in `cache` and is appended to them. Returns [R, 1, D].
  Variable decode(const Variable& x, LayerCache& cache) const;
  /// The keys and values of a memory [1, S, D], for decode().
  MemoryKeys keys_of(const Variable& memory) const;
  /// Cross-attention without gradients of x [1, R, D] over a memory. Returns [1, R, D].
  Variable decode(const Variable& x, const MemoryKeys& memory, const AttentionOptions& mask) const;

  /// Null in a dense layer.
  const HeadRouter* router() const { return router_ ? &*router_ : nullptr; }
  HeadRouter* router() { return router_ ? &*router_ : nullptr; }

 private:
  struct Projections {
    Variable q, k, v;  ///< [B, T, H, d], [B, S, G, d] twice
    std::optional<HeadChoice> choice;

    const HeadChoice* chosen() const { return choice ? &*choice : nullptr; }
  };
  /// Queries of x and what the router says of them; with `self` its keys and values, too.
  Projections project(const Variable& x, bool self, const ForwardContext& context) const;

  std::pair<Variable, Variable> keys_and_values(const Variable& tokens) const;
  Variable projected(const Variable& heads, const Projections& p) const;
  void show(AttentionObserver& observer, const Variable& x, const Projections& p, const Variable& heads,
            const AttentionOptions& mask, bool to_memory) const;

  RecomputeLevel recompute_;
  std::int64_t layer_, head_dim_;
  double dropout_;
  Linear q_proj_, k_proj_, v_proj_, out_proj_;
  OutputGate output_gate_;
  std::optional<HeadRouter> router_;  // absent in a dense layer
};

}  // namespace moh
