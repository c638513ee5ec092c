#pragma once

#include <cstdint>

#include "autograd/variable.h"
#include "core/random.h"

namespace moh {

/// A branch that a norm adds to the residual stream x [B, ..., D] first, as it is, or one whose samples are
/// dropped (drop_path), or one times a row of gates for each sample (gate_residual).
struct ResidualBranch {
  Variable value;            ///< like x; undefined: nothing is added
  double drop_rate = 0;      ///< 0 <= drop_rate < 1; 0 where there are gates
  RandomKey key = {};        ///< of what is dropped
  Variable modulation = {};  ///< [B, M, D], whose row `gate` holds the gates, or undefined
  std::int64_t gate = 0;

  /// Whether the branch is added as it is.
  bool is_plain() const { return drop_rate == 0 && !modulation.defined(); }
};

/// Results of an op that adds a branch and normalises: the residual stream, and its norm.
struct AddedAndNormed {
  Variable sum, normed;
};

}  // namespace moh
