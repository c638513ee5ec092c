#pragma once

#include <optional>

#include "models/layers/head_routing.h"
#include "ops/norm/residual_branch.h"

namespace moh {

/// Hidden states between two layers, whose last branch is not added yet: the next norm adds it in its own
/// pass over memory. Layers take streams by value, and let go of them once they have been normalised.
struct ResidualStream {
  Variable x;                  ///< [B, T, D]
  ResidualBranch branch = {};  ///< to be added

  Variable sum() const;
  /// The sum, and `norm` of it.
  template <class Norm>
  AddedAndNormed normed(const Norm& norm) const {
    return norm.after_adding(x, branch);
  }
};

/// The result of a layer between residual streams. The others are as in LayerOutput.
struct StreamOutput {
  ResidualStream stream;
  std::optional<LayerRouting> routing;
  Variable expert_balance = {};
};

}  // namespace moh
