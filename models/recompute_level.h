#pragma once

#include <algorithm>
#include <array>

namespace moh {

/// The activations that the backward pass recomputes instead of keeping them in memory
/// (autograd/recompute.h).
enum class RecomputeLevel {
  kNone,   ///< nothing
  kNorms,  ///< outputs of norms, and of activations between the matrices of the MLP: no product of matrices
  kMlp,    ///< those of kNorms, and the first matrix products of the MLP
  kAttention,        ///< those of kNorms, and queries, keys and values, and the heads' outputs
  kMlpAndAttention,  ///< those of kMlp and of kAttention: sums of the residual stream are kept
  kLayer,            ///< all activations inside a layer, of which only the input is kept
};

inline constexpr std::array kRecomputeLevels = {
    RecomputeLevel::kNone,      RecomputeLevel::kNorms,           RecomputeLevel::kMlp,
    RecomputeLevel::kAttention, RecomputeLevel::kMlpAndAttention, RecomputeLevel::kLayer};

/// Whether outputs of norms and of activations are recomputed by themselves.
constexpr bool recomputes_norms(RecomputeLevel level) {
  return level != RecomputeLevel::kNone && level != RecomputeLevel::kLayer;
}

/// Whether the first matrix products of the MLP are recomputed by themselves.
constexpr bool recomputes_mlp(RecomputeLevel level) {
  return level == RecomputeLevel::kMlp || level == RecomputeLevel::kMlpAndAttention;
}

/// Whether the inner values of attention are recomputed by themselves.
constexpr bool recomputes_attention(RecomputeLevel level) {
  return level == RecomputeLevel::kAttention || level == RecomputeLevel::kMlpAndAttention;
}

/// The level that recomputes what `a` does and what `b` does, and nothing else: kMlp and kAttention are the
/// only two of which neither contains the other.
constexpr RecomputeLevel joined(RecomputeLevel a, RecomputeLevel b) {
  const auto [less, more] = std::minmax(a, b);
  const bool apart = less == RecomputeLevel::kMlp && more == RecomputeLevel::kAttention;
  return apart ? RecomputeLevel::kMlpAndAttention : more;
}

}  // namespace moh
