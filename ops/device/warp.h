#pragma once

#include "ops/device/kernel.h"

// Warp-wide operations: all 32 lanes must call them together (full mask).

namespace moh::device {

/// `value` of lane (own lane XOR mask).
template <class T>
MOH_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
/// `value` of lane `lane`.
template <class T>
MOH_DEVICE T shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffU, value, lane);
}
/// Bit i: whether `predicate` holds in lane i.
MOH_DEVICE std::uint32_t ballot(bool predicate) {
  return __ballot_sync(0xffffffffU, predicate);
}
/// Number of set bits, for instance of a ballot.
MOH_DEVICE int count_bits(std::uint32_t bits) {
  return __popc(bits);
}
/// Barrier for the lanes of the warp; orders their memory accesses.
MOH_DEVICE void sync_warp() {
  __syncwarp();
}

}  // namespace moh::device
