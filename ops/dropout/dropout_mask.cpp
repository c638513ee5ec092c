#include "ops/dropout/dropout_mask.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"

namespace moh {

DropoutMask dropout_mask(std::string_view op, std::string_view name, double p, RandomKey key, Device device) {
  if (!(p >= 0.0 && p < 1.0)) {
    throw ValueError(error_message(op, name, "0 or more and below 1", std::to_string(p)));
  }
  MOH_CHECK(key.first_stream == nullptr || device != kCpu, "a key with first_stream is for tensors on a GPU");
  // The rounded threshold must not reach 2^32, which would overflow to 0: "keep all".
  const double threshold = std::min(std::round(p * 0x1p32), 0x1p32 - 1.0);
  return {key.seed, key.stream, static_cast<std::uint32_t>(threshold), 1.0 / (1.0 - p), key.first_stream};
}

double factor_of(const DropoutMask& mask, std::int64_t i) {
  const auto words = philox(mask.seed, static_cast<std::uint64_t>(i) / 4, mask.stream);
  return words[static_cast<std::size_t>(i % 4)] < mask.threshold ? 0.0 : mask.scale;
}

}  // namespace moh
