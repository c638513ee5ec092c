#pragma once

namespace moh {

/// What the backward pass computes again instead of keeping it in memory (autograd/recompute.h).
enum class RecomputeLevel {
  kNone,   ///< nothing
  kLayer,  ///< all inside of a layer, of which the input alone is kept
};

}  // namespace moh
