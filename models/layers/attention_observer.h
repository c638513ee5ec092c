#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/tensor.h"

namespace moh {

struct HeadChoice;

/// Tensors of one attention layer in a forward pass. B sequences of T tokens, S keys (T in self-attention), D
/// hidden, H query heads, G KV heads, d head width.
struct AttentionTrace {
  std::int64_t layer = 0;
  Tensor x;  ///< [B, T, D], the layer's input after its norm
  /// [B, T, H, d], [B, S, G, d] twice; q and k after the rotary embedding. Undefined in attention whose
  /// scores are not q k^T / sqrt(d).
  Tensor q, k, v;
  /// [B, T, H, d], input of the output projection: times the gate, 0 where not selected. With a RoutingRule
  /// that has other outputs, the heads without a gate.
  Tensor heads;
  /// [D, H d], the weight of the output projection; undefined with such a rule, and where it differs by token
  /// (SwitchHead)
  Tensor output;
  bool causal = true;       ///< a token attends to itself and earlier ones; false: to all tokens
  std::int64_t window = 0;  ///< and to so many at most, itself included; 0: no window
  /// [B, T] int32, and to none before document_starts, nor from document_ends on (AttentionOptions);
  /// undefined: none
  Tensor document_starts = {}, document_ends = {};
  /// Whose tokens x and q are of, and whose k and v: in an encoder-decoder 0 is the source and 1 the target.
  std::size_t side = 0, key_side = 0;
  const HeadChoice* choice = nullptr;  ///< null in a dense layer
  /// In attention of other scores, where two heads see the same keys: the probabilities of a sequence, [T, H,
  /// K] in float32 on the CPU. Empty: those of q and k, or none that could be compared.
  std::function<Tensor(std::int64_t sequence)> patterns = {};
};

/// Callback with the tensors of attention layers during a forward pass (ForwardContext::observer).
class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;
  /// Called once per layer and forward pass, in order. With recompute, again in the backward pass.
  virtual void observe(const AttentionTrace& trace) = 0;
};

}  // namespace moh
