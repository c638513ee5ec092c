#pragma once

#include <cstdint>
#include <string_view>

#include "core/random.h"

namespace moh {

/// Which elements stay, and what they are multiplied by.
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint32_t threshold = 0;  ///< random words below it drop their element
  double scale = 1.0;
  const std::int64_t* first_stream = nullptr;  ///< on a GPU, where not null: added to `stream`
};

/// The mask of an op that drops with probability p, its operand of this name: element i is kept when word
/// i mod 4 of philox(key.seed, i div 4, key.stream), taken as a fraction of 2^32, is p or more. Throws
/// ValueError unless 0 <= p < 1.
DropoutMask dropout_mask(std::string_view op, std::string_view name, double p, RandomKey key, Device device);

/// What element i is multiplied by: the scale, or 0. For a mask without first_stream.
double factor_of(const DropoutMask& mask, std::int64_t i);

}  // namespace moh
