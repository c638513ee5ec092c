#pragma once

#include <cuda_bf16.h>

#include "ops/device/kernel.h"

namespace moh::device {

/// 2^x to about 2 units in the last place; results below the normal range are zero.
MOH_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Two bfloat16, rounded to nearest even, `low` in the lower half.
MOH_DEVICE std::uint32_t pack_bfloat16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

}  // namespace moh::device
