#pragma once

// For kernel files (*_cuda.cu) only: a warp has the few elements of a token, its lanes every 32nd.

#include <cstdint>

#include "ops/cuda/reduce.h"

namespace moh {

/// Calls body(i) for i in [0, n), distributed over the lanes.
template <class Body>
MOH_DEVICE void on_lanes(std::int64_t n, const Body& body) {
  for (std::int64_t i = device::thread_x() % device::kWarp; i < n; i += device::kWarp) body(i);
}

/// The sum of body(i) over i in [0, n), on all lanes, in A.
template <class A = float, class Body>
MOH_DEVICE A sum_on_lanes(std::int64_t n, const Body& body) {
  A sum = 0;
  on_lanes(n, [&](std::int64_t i) { sum += body(i); });
  return reduce_warp(sum, Sum{});
}

/// on_lanes() and sum_on_lanes() for the heads of a layer, mostly at most one for each lane: unrolled loops
/// would take registers for nothing.
template <class Body>
MOH_DEVICE void on_heads(std::int64_t n, const Body& body) {
  MOH_ROLLED
  for (std::int64_t i = device::thread_x() % device::kWarp; i < n; i += device::kWarp) body(i);
}
template <class Body>
MOH_DEVICE float sum_on_heads(std::int64_t n, const Body& body) {
  float sum = 0;
  on_heads(n, [&](std::int64_t i) { sum += body(i); });
  return reduce_warp(sum, Sum{});
}

/// Whether logit a is selected before b, ties to the lower index; NaN ranks below every number.
MOH_DEVICE bool precedes(float a, std::int64_t index_a, float b, std::int64_t index_b) {
  const bool nan_a = a != a, nan_b = b != b;
  if (nan_a != nan_b) return nan_b;
  if (!nan_a && a != b) return a > b;
  return index_a < index_b;
}

}  // namespace moh
