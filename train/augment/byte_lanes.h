#pragma once

// For kernel files only: everything here has internal linkage.
//
// Bytes to 32-bit integers and back, in a few instructions: GCC 12 makes one of each element of a
// __builtin_convertvector between them.

#include "ops/cpu/simd.h"

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace moh {
namespace {

using Ints = Vec<std::int32_t>;
using Bytes16 = Vec<std::uint8_t, 16>;
using FourInts = Vec<std::int32_t, 4>;

#if defined(__AVX512F__)
// With a mask: of those without, GCC 12 says that they use values that were not set.
constexpr __mmask16 kAllLanes = 0xffff;
#endif

/// The first bytes, as many as Ints has lanes.
[[gnu::always_inline]] inline Ints upcast(Bytes16 bytes) {
#if defined(__AVX512F__)
  return (Ints)_mm512_maskz_cvtepu8_epi32(kAllLanes, (__m128i)bytes);
#elif defined(__AVX2__)
  return (Ints)_mm256_cvtepu8_epi32((__m128i)bytes);
#elif defined(__SSE4_1__)
  return (Ints)_mm_cvtepu8_epi32((__m128i)bytes);
#else
  Ints v;
  for (int i = 0; i < kLanes<std::int32_t>; ++i) v[i] = bytes[i];
  return v;
#endif
}

[[gnu::always_inline]] inline Ints load_bytes(const std::uint8_t* from) {
#if defined(__AVX512F__)
  return upcast((Bytes16)_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
  return upcast((Bytes16)_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#elif defined(__SSE4_1__)
  std::int32_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return upcast((Bytes16)_mm_cvtsi32_si128(bits));
#else
  Bytes16 bytes{};
  __builtin_memcpy(&bytes, from, kLanes<std::int32_t>);
  return upcast(bytes);
#endif
}

[[gnu::always_inline]] inline FourInts load_four_bytes(const std::uint8_t* from) {
#if defined(__SSE4_1__)
  std::int32_t bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return (FourInts)_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bits));
#else
  return FourInts{from[0], from[1], from[2], from[3]};
#endif
}

/// Four integers of 16 bits, cut off to 0 ... 255.
[[gnu::always_inline]] inline std::uint32_t four_bytes(FourInts v) {
#if defined(__SSE4_1__)
  const __m128i words = _mm_packs_epi32((__m128i)v, (__m128i)v);
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_packus_epi16(words, words)));
#else
  std::uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    const std::int32_t value = v[i] < 0 ? 0 : v[i] > 255 ? 255 : v[i];
    bytes |= static_cast<std::uint32_t>(value) << (8 * i);
  }
  return bytes;
#endif
}

/// Stores four_bytes() of as many integers as Ints has lanes.
[[gnu::always_inline]] inline void store_bytes(std::uint8_t* to, Ints v) {
#if defined(__AVX512F__)
  const Ints zero{};
  const Ints positive = v > zero ? v : zero;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_maskz_cvtusepi32_epi8(kAllLanes, (__m512i)positive));
#else
  for (int i = 0; i < kLanes<std::int32_t>; i += 4) {
    FourInts four;
    __builtin_memcpy(&four,
                     reinterpret_cast<const char*>(&v) + sizeof(std::int32_t) * static_cast<std::size_t>(i),
                     sizeof four);
    const std::uint32_t bytes = four_bytes(four);
    __builtin_memcpy(to + i, &bytes, sizeof bytes);
  }
#endif
}

}  // namespace
}  // namespace moh
