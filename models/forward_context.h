#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

class AttentionObserver;

/// Options of one forward pass, which every attention layer of every family respects.
struct ForwardContext {
  bool training = false;                  ///< enables dropout, and masks of learned shared heads
  Generator* generator = nullptr;         ///< random numbers of dropout; required when training with it
  AttentionObserver* observer = nullptr;  ///< gets the tensors of each attention layer; may be null
  bool all_heads = false;  ///< skips the routers: every head is active with gate 1, as in the dense model
  /// Chooses no kernel by the number of tokens: on a CPU, what is computed of a token has the same bits
  /// beside any others.
  bool equal_rows = false;
  /// Empty, or one per layer: [H], in the model's dtype, factors of the heads' outputs before the output
  /// projection. Must be leaves if the model recomputes layers. Undefined for a layer without scales.
  std::span<const Variable> head_scales = {};
  /// Empty, or one per layer: the routed heads that each token selects, as in route_heads (comparisons with a
  /// reference of another precision). Undefined for a layer whose router selects them.
  std::span<const Tensor> forced_top = {};
  /// Empty, or one per layer: [E], float32, the loads that the load-balance loss takes for its own
  /// (route_heads). Undefined for a layer that takes its own.
  std::span<const Tensor> balance_loads = {};
  /// For packed sequences, [B, T] int32 on the model's device: the position at which each token's document
  /// begins. Tokens see those of their own document alone. Undefined: a sequence is one document.
  Tensor document_starts = {};
  /// Whether rotary positions begin anew with each document.
  bool reset_positions = false;

  /// The generator in training, else null.
  Generator* draws() const { return training ? generator : nullptr; }
  /// The head_scales, forced_top and balance_loads of a layer; undefined if there are none.
  Variable head_scales_of(std::int64_t layer) const {
    return head_scales.empty() ? Variable() : head_scales[static_cast<std::size_t>(layer)];
  }
  Tensor forced_top_of(std::int64_t layer) const {
    return forced_top.empty() ? Tensor() : forced_top[static_cast<std::size_t>(layer)];
  }
  Tensor balance_load_of(std::int64_t layer) const {
    return balance_loads.empty() ? Tensor() : balance_loads[static_cast<std::size_t>(layer)];
  }
};

/// Throws ShapeError, naming the model, when head_scales, forced_top or balance_loads are neither empty nor
/// one per layer.
void require_per_layer(std::string_view model, const ForwardContext& context, std::int64_t layers);

}  // namespace moh
