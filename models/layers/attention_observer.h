#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "models/layers/head_routing.h"

namespace moh {

/// What one attention layer computed in a forward pass. B sequences of T tokens, D hidden, H query heads, G
/// KV heads, d head width.
struct AttentionTrace {
  std::int64_t layer = 0;
  Tensor x;        ///< [B, T, D], the layer's input after its norm
  Tensor q, k, v;  ///< [B, T, H, d], [B, T, G, d] twice; q and k rotated
  Tensor heads;    ///< [B, T, H, d], what the output projection reads: times the gate, 0 where not selected
  Tensor output;   ///< [D, H d], the weight of the output projection
  bool causal = true;                  ///< a token sees itself and those before it; false: all tokens
  const HeadChoice* choice = nullptr;  ///< null in a dense layer
};

/// Somebody who looks at attention layers while a model runs (ForwardContext::observer).
class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;
  /// Called once per layer and forward pass, in order. With recomputation, again in the backward pass.
  virtual void observe(const AttentionTrace& trace) = 0;
};

}  // namespace moh
