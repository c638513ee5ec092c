#pragma once

namespace moh {

/// The activations that the backward pass recomputes instead of keeping them in memory
/// (autograd/recompute.h).
enum class RecomputeLevel {
  kNone,   ///< nothing
  kLayer,  ///< all activations inside a layer, of which only the input is kept
};

}  // namespace moh
