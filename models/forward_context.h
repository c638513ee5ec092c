#pragma once

#include <cstdint>
#include <span>

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

class AttentionObserver;

/// What a forward pass is for. Every attention layer of every family follows it.
struct ForwardContext {
  bool training = false;                  ///< dropout is on
  Generator* generator = nullptr;         ///< where dropout draws from; needed when training with dropout
  AttentionObserver* observer = nullptr;  ///< is shown what each attention layer computes
  bool all_heads = false;  ///< routers are not run: every head is active with weight 1, as in the dense model
  /// One per layer, or none: [H], in the model's dtype, by which the outputs of the heads are multiplied
  /// before the output projection; leaves, where the model recomputes. Undefined for a layer without scales.
  std::span<const Variable> head_scales = {};
  /// One per layer, or none: the routed heads that each token selects, as in route_heads (comparisons with a
  /// reference of another precision). Undefined for a layer whose router selects them.
  std::span<const Tensor> forced_top = {};

  /// Those of a layer; undefined without any.
  Variable head_scales_of(std::int64_t layer) const {
    return head_scales.empty() ? Variable() : head_scales[static_cast<std::size_t>(layer)];
  }
  Tensor forced_top_of(std::int64_t layer) const {
    return forced_top.empty() ? Tensor() : forced_top[static_cast<std::size_t>(layer)];
  }
};

}  // namespace moh
