#pragma once

#include <cstdint>

namespace moh {

/// Experts of values and of outputs in every attention layer (models/layers/switch_head.h).
struct SwitchHeadConfig {
  std::int64_t experts = 0;  ///< of each head, in values and in outputs; 0: none, both projections are dense
  std::int64_t top_k = 0;    ///< experts of a head that a token selects

  bool used() const { return experts > 0; }
  /// How many projections of head_dim rows a head's values have, and columns a head's output.
  std::int64_t per_head() const { return used() ? experts : 1; }

  bool operator==(const SwitchHeadConfig&) const = default;
};

}  // namespace moh
