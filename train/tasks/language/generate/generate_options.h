#pragma once

#include <cstdint>

namespace moh {

/// How the next token is drawn from a model's distribution.
struct PickOptions {
  double temperature = 1.0;  ///< 0: always the most probable token
  std::int64_t top_k = 0;    ///< only the k most probable; 0: all
  double top_p =
      1.0;  ///< only the fewest most probable that together hold this probability (Holtzman et al. 2020)
};

/// How a text is continued.
struct GenerateOptions {
  std::int64_t tokens = 256;  ///< at most this many new ones
  PickOptions pick;
  std::uint64_t seed = 0;
};

}  // namespace moh
