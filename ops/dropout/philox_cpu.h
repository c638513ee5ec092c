#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// 64-bit lanes. Where a 32-bit number is expected, the upper half of its lane may be anything.
using Wide = Vec<std::uint64_t>;

/// The 64-bit products of the lower halves.
[[gnu::always_inline]] inline Wide multiply_lower_halves(Wide a, Wide b) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
  using Halves = Vec<std::int32_t>;
  return (Wide)__builtin_ia32_pmuludq512_mask((Halves)a, (Halves)b, Vec<long long>{}, 0xff);
#elif defined(__GNUC__) && !defined(__clang__) && defined(__AVX2__)
  return (Wide)__builtin_ia32_pmuludq256((Vec<std::int32_t>)a, (Vec<std::int32_t>)b);
#elif defined(__GNUC__) && !defined(__clang__) && defined(__SSE2__)
  return (Wide)__builtin_ia32_pmuludq128((Vec<std::int32_t>)a, (Vec<std::int32_t>)b);
#else
  return (a & 0xffffffffU) * (b & 0xffffffffU);
#endif
}

/// Stores the words of a vector of counters in order, four for each.
template <std::size_t... kLane>
[[gnu::always_inline]] inline void store_words(std::uint32_t* to, Wide x01, Wide x23,
                                               std::index_sequence<kLane...>) {
  constexpr std::int64_t kN = kLanes<std::uint64_t>;
  const Wide low = __builtin_shufflevector(x01, x23, (kLane / 2 + kLane % 2 * kN)...);
  const Wide high = __builtin_shufflevector(x01, x23, ((kN + kLane) / 2 + kLane % 2 * kN)...);
  __builtin_memcpy(to, &low, sizeof low);
  __builtin_memcpy(to + 2 * kN, &high, sizeof high);
}

/// Vectors of counters per call of philox_words: the rounds of one wait for each other, and a processor does
/// not see as far as the next call.
constexpr std::int64_t kPhiloxVectors = 4;
constexpr std::int64_t kPhiloxStep = kPhiloxVectors * kLanes<std::uint64_t>;

/// words[4 c + k] = word k of philox(key, first + c, stream) for as many c as kVectors vectors have lanes.
/// The rounds are those of core/philox.h.
template <std::int64_t kVectors = kPhiloxVectors>
[[gnu::always_inline]] inline void philox_words(std::uint64_t key, std::uint64_t first, std::uint64_t stream,
                                                std::uint32_t* words) {
  constexpr std::int64_t kN = kLanes<std::uint64_t>;
  const Wide multiply0 = Wide{} + 0xD2511F53U, multiply1 = Wide{} + 0xCD9E8D57U;
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  Wide x0[kVectors], x1[kVectors], x2[kVectors], x3[kVectors];
  for (std::int64_t v = 0; v < kVectors; ++v) {
    x0[v] = (Wide)lane_numbers<double>() + (first + static_cast<std::uint64_t>(v * kN));
    x1[v] = x0[v] >> 32;
    x2[v] = Wide{} + stream;
    x3[v] = x2[v] >> 32;
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const Wide product0 = multiply_lower_halves(x0[v], multiply0),
                 product1 = multiply_lower_halves(x2[v], multiply1);
      x0[v] = (product1 >> 32) ^ x1[v] ^ key0;
      x1[v] = product1;
      x2[v] = (product0 >> 32) ^ x3[v] ^ key1;
      x3[v] = product0;
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  constexpr std::uint64_t kLower = 0xffffffffU;
  for (std::int64_t v = 0; v < kVectors; ++v) {
    store_words(words + 4 * kN * v, (x0[v] & kLower) | (x1[v] << 32), (x2[v] & kLower) | (x3[v] << 32),
                std::make_index_sequence<kN>{});
  }
}

}  // namespace
}  // namespace moh
