#pragma once

#include <span>

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

class AttentionObserver;

/// What a forward pass is for.
struct ForwardContext {
  bool training = false;                  ///< dropout is on
  Generator* generator = nullptr;         ///< where dropout draws from; needed when training with dropout
  AttentionObserver* observer = nullptr;  ///< is shown what each attention layer computes
  bool all_heads = false;  ///< routers are not asked: every head is on with weight 1, as in the dense model
  /// One per layer, or none: [H], in the model's dtype, by which the outputs of the heads are multiplied
  /// before the output projection; leaves, where the model recomputes. Undefined for a layer without scales.
  std::span<const Variable> head_scales = {};
};

}  // namespace moh
