#pragma once

#include <bit>
#include <cmath>

#include "core/dtype.h"
#include "ops/device/kernel.h"

namespace moh::device {

inline float exp2_fast(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126F ? 0.0F : y;
}

inline std::uint32_t pack_bfloat16(float low, float high) {
  return bfloat16(low).bits | static_cast<std::uint32_t>(bfloat16(high).bits) << 16;
}

}  // namespace moh::device
