#pragma once

#include <array>

namespace moh {

/// The activations that the backward pass recomputes instead of keeping them in memory
/// (autograd/recompute.h).
enum class RecomputeLevel {
  kNone,   ///< nothing
  kNorms,  ///< outputs of norms, and of activations between the matrices of the MLP: no product of matrices
  kMlp,    ///< those of kNorms, and the first matrix products of the MLP
  kAttention,  ///< those of kNorms, and queries, keys and values, and the heads' outputs
  kLayer,      ///< all activations inside a layer, of which only the input is kept
};

inline constexpr std::array kRecomputeLevels = {RecomputeLevel::kNone, RecomputeLevel::kNorms,
                                                RecomputeLevel::kMlp, RecomputeLevel::kAttention,
                                                RecomputeLevel::kLayer};

/// Whether outputs of norms and of activations are recomputed by themselves.
constexpr bool recomputes_norms(RecomputeLevel level) {
  return level != RecomputeLevel::kNone && level != RecomputeLevel::kLayer;
}

}  // namespace moh
