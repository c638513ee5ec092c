#pragma once

#include <cstdint>
#include <cstring>

namespace moh::sim {

/// TF32 keeps 10 bits of the mantissa.
inline float rounded_to_tf32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffU;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace moh::sim
