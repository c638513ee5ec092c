#pragma once

#include <cstdint>
#include <string_view>

#include "core/random.h"

namespace moh {

/// Determines which elements are kept, and the factor that they are multiplied by.
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint32_t threshold = 0;  ///< random words below it drop their element
  double scale = 1.0;
  const std::int64_t* first_stream = nullptr;  ///< on a GPU, if not null: added to `stream` (core/random.h)

  /// Whether the drop probability is above 0.
  constexpr bool drops() const { return scale > 1.0; }
};

/// The mask for drop probability p: element i is kept when word i mod 4 of philox(key.seed, i div 4,
/// key.stream), divided by 2^32, is at least p. Throws ValueError, naming `op` and its argument `name`,
/// unless 0 <= p < 1.
DropoutMask dropout_mask(std::string_view op, std::string_view name, double p, RandomKey key, Device device);

/// The factor of element i: the scale, or 0. For a mask without first_stream.
double factor_of(const DropoutMask& mask, std::int64_t i);

}  // namespace moh
