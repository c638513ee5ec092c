#pragma once

// For kernel files (*_cuda.cu) only.

#include "core/philox.h"
#include "ops/device/kernel.h"
#include "ops/dropout/dropout_mask.h"

namespace moh {

/// The stream of the random words.
MOH_DEVICE std::uint64_t device_stream_of(const DropoutMask& mask) {
  const std::uint64_t first =
      mask.first_stream == nullptr ? 0 : static_cast<std::uint64_t>(*mask.first_stream);
  return first + mask.stream;
}

/// The factor of element i, from the same random words as factor_of on the CPU.
MOH_DEVICE float device_factor_of(const DropoutMask& mask, std::int64_t i) {
  const auto words = philox(mask.seed, static_cast<std::uint64_t>(i) / 4, device_stream_of(mask));
  return words[static_cast<std::size_t>(i % 4)] < mask.threshold ? 0.0F : static_cast<float>(mask.scale);
}

}  // namespace moh
