#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Vector arithmetic through the compilers' vector extensions: one source serves AVX-512, AVX2, SSE and Arm. A
// Vec<F> is one register full of F; +, -, * and comparisons work lane by lane, and a * b + c becomes one
// fused instruction where the processor has it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/dtype.h"

namespace moh {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 32;
#else
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 16;
#endif

/// Lanes of a full register.
template <class F>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(F));

template <class F, int kCount>
struct VecOf {
  typedef F type __attribute__((vector_size(kCount * sizeof(F))));
};
template <class F, int kCount = kLanes<F>>
using Vec = typename VecOf<F, kCount>::type;

/// Two neighbours along the summed axis of a product of matrices of bfloat16, which one lane of an
/// instruction multiplies with two others and adds, in float32.
struct Bf16Pair {
  bfloat16 first, second;
};
template <int kCount>
struct VecOf<Bf16Pair, kCount> {
  typedef std::uint32_t type __attribute__((vector_size(kCount * sizeof(Bf16Pair))));
};

/// Whether products of bfloat16 are sums of pairs. Otherwise operands are upcast while they are packed.
#if defined(__AVX512BF16__)
constexpr bool kHasPairs = true;
/// Instantiates a kernel template for the instruction set, of a file that is compiled for
/// MOH_CPU_MATRIX_ISAS, too: those run no other kernels of their own.
#define MOH_MATRIX_KERNELS(Kernels) template struct Kernels<cpu::MOH_ISA, bfloat16>;
#else
constexpr bool kHasPairs = false;
#define MOH_MATRIX_KERNELS(Kernels)                \
  template struct Kernels<cpu::MOH_ISA, float>;    \
  template struct Kernels<cpu::MOH_ISA, bfloat16>; \
  template struct Kernels<cpu::MOH_ISA, double>;
#endif
/// An operand's element of type T as products of matrices read it, packed.
template <class T>
using Factor =
    std::conditional_t<!std::is_same_v<T, bfloat16>, T, std::conditional_t<kHasPairs, Bf16Pair, float>>;
/// Elements along the summed axis in a factor F.
template <class F>
constexpr std::int64_t kTerms = std::is_same_v<F, Bf16Pair> ? 2 : 1;
/// The type of sums of products of F.
template <class F>
using SumOf = std::conditional_t<std::is_same_v<F, Bf16Pair>, float, F>;

/// The integer with the bits of F.
template <class F>
using BitsOf = std::conditional_t<sizeof(F) == 8, std::int64_t, std::int32_t>;

/// `count` rounded up to whole vectors of F, in elements.
template <class F>
constexpr std::int64_t round_up_to_lanes(std::int64_t count) {
  return (count + kLanes<F> - 1) / kLanes<F> * kLanes<F>;
}

template <class F>
[[gnu::always_inline]] inline Vec<F> load(const F* from) {
  Vec<F> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class F>
[[gnu::always_inline]] inline void store(F* to, Vec<F> v) {
  __builtin_memcpy(static_cast<void*>(to), &v, sizeof v);
}
template <class F>
[[gnu::always_inline]] inline Vec<F> splat(F value) {
  if constexpr (std::is_same_v<F, Bf16Pair>) {
    return std::bit_cast<std::uint32_t>(value) - Vec<F>{};
  } else {
    return value - Vec<F>{};  // x - 0 keeps every x, the sign of zero included
  }
}

/// sum + a * b, lane by lane; of pairs sum + a.second * b.second + a.first * b.first as VDPBF16PS computes
/// it: rounded to nearest even, with subnormal numbers taken and returned as zero.
template <class F>
[[gnu::always_inline]] inline Vec<SumOf<F>> multiply_add(Vec<F> a, Vec<F> b, Vec<SumOf<F>> sum) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<F, Bf16Pair>) {
    return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  } else {
    return sum + a * b;
  }
#else
  return sum + a * b;
#endif
}

/// Moves 16-bit numbers to the upper halves of 32-bit ones, zeros below: upcasts bfloat16 to float32.
template <std::size_t... kLane>
[[gnu::always_inline]] inline Vec<float> upper_halves(Vec<std::uint16_t, kLanes<float>> halves,
                                                      std::index_sequence<kLane...>) {
  const Vec<std::uint16_t, kLanes<float>> zeros{};
  return (Vec<float>)__builtin_shufflevector(
      zeros, halves, (kLane % 2 == 0 ? 0 : kLanes<float> + static_cast<int>(kLane) / 2)...);
}

/// Loads a vector of elements stored as T, upcast to Acc<T>.
template <class T>
[[gnu::always_inline]] inline Vec<Acc<T>> load_as(const T* from) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    Vec<std::uint16_t, kLanes<float>> halves;
    __builtin_memcpy(&halves, from, sizeof halves);
    return upper_halves(halves, std::make_index_sequence<kLanes<std::uint16_t>>{});
  } else {
    return load<T>(from);
  }
}
/// Rounds to bfloat16 as its constructor does, but AVX512-BF16 rounds subnormal numbers to zero.
[[gnu::always_inline]] inline Vec<std::uint16_t, kLanes<float>> to_bfloat16(Vec<float> v) {
#if defined(__AVX512BF16__)
  return (Vec<std::uint16_t, kLanes<float>>)_mm512_cvtneps_pbh((__m512)v);
#else
  const Vec<std::uint32_t> u = (Vec<std::uint32_t>)v;
  const Vec<std::uint32_t> rounded = u + 0x7fffU + ((u >> 16) & 1U);
  const Vec<std::uint32_t> bits = (v == v) ? rounded : (u | 0x00400000U);
  return __builtin_convertvector(bits >> 16, Vec<std::uint16_t, kLanes<float>>);
#endif
}
/// Stores as T, rounded as to_bfloat16() does.
template <class T>
[[gnu::always_inline]] inline void store_as(T* to, Vec<Acc<T>> v) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    const auto halves = to_bfloat16(v);
    __builtin_memcpy(static_cast<void*>(to), &halves, sizeof halves);
  } else {
    store<T>(to, v);
  }
}

template <class F, std::size_t... kLane>
[[gnu::always_inline]] inline Vec<F> with_zeros_above(Vec<F, kLanes<F> / 2> low,
                                                      std::index_sequence<kLane...>) {
  return __builtin_shufflevector(low, Vec<F, kLanes<F> / 2>{}, static_cast<int>(kLane)...);
}
template <class F, std::size_t... kLane>
[[gnu::always_inline]] inline Vec<F, kLanes<F> / 2> lower_half(Vec<F> v, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(v, v, static_cast<int>(kLane)...);
}

#if defined(__AVX512F__)
/// The mask of the first `count` lanes, fewer than 64.
template <class Mask>
[[gnu::always_inline]] inline Mask first_lanes(std::int64_t count) {
  return static_cast<Mask>((std::uint64_t{1} << count) - 1);
}
#endif

/// Loads `count` elements, fewer than a vector of float has, in 16 bits each; the other lanes are zero.
[[gnu::always_inline]] inline Vec<std::uint16_t, kLanes<float>> load_first_halves(const bfloat16* from,
                                                                                  std::int64_t count) {
#if defined(__AVX512F__)
  return (Vec<std::uint16_t, kLanes<float>>)_mm256_maskz_loadu_epi16(first_lanes<__mmask16>(count), from);
#else
  Vec<std::uint16_t, kLanes<float>> halves{};
  __builtin_memcpy(&halves, from, static_cast<std::size_t>(count) * sizeof *from);
  return halves;
#endif
}

/// Loads the first `count` elements, fewer than a vector; the other lanes are zero. Half a vector, the rest
/// of a head of 24 in vectors of 16, does not go through memory.
template <class T>
[[gnu::always_inline]] inline Vec<Acc<T>> load_first(const T* from, std::int64_t count) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return upper_halves(load_first_halves(from, count), std::make_index_sequence<kLanes<std::uint16_t>>{});
  } else {
    if (count * 2 == kLanes<T>) {
      Vec<T, kLanes<T> / 2> low;
      __builtin_memcpy(&low, from, sizeof low);
      return with_zeros_above<T>(low, std::make_index_sequence<kLanes<T>>{});
    }
    alignas(kVectorBytes) unsigned char lanes[kVectorBytes] = {};
    __builtin_memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(T));
    return load<T>(reinterpret_cast<const T*>(lanes));
  }
}
/// Stores the first `count` lanes.
template <class T>
[[gnu::always_inline]] inline void store_first(T* to, Vec<Acc<T>> v, std::int64_t count) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, bfloat16>)
    return _mm256_mask_storeu_epi16(to, first_lanes<__mmask16>(count), (__m256i)to_bfloat16(v));
#endif
  if constexpr (std::is_same_v<T, Acc<T>>) {
    if (count * 2 == kLanes<T>) {
      const auto low = lower_half<T>(v, std::make_index_sequence<kLanes<T> / 2>{});
      __builtin_memcpy(to, &low, sizeof low);
      return;
    }
  }
  alignas(kVectorBytes) unsigned char lanes[kLanes<Acc<T>> * sizeof(T)];
  store_as<T>(reinterpret_cast<T*>(lanes), v);
  __builtin_memcpy(static_cast<void*>(to), lanes, static_cast<std::size_t>(count) * sizeof(T));
}

// GCC makes a comparison and a blend of a > b ? a : b, others one instruction. `name`: maxps, ...
#if defined(__SSE2__) && !defined(__clang__)
#if defined(__AVX512F__)
#define MOH_LANES_OF(name) __builtin_ia32_##name##512_mask(a, b, a, -1, 4 /* rounding as everywhere */)
#elif defined(__AVX__)
#define MOH_LANES_OF(name) __builtin_ia32_##name##256(a, b)
#else
#define MOH_LANES_OF(name) __builtin_ia32_##name(a, b)
#endif
#endif
/// The larger and the smaller, lane by lane; b where either is NaN.
template <class F>
[[gnu::always_inline]] inline Vec<F> larger(Vec<F> a, Vec<F> b) {
#ifdef MOH_LANES_OF
  if constexpr (sizeof(F) == sizeof(float)) {
    return MOH_LANES_OF(maxps);
  } else {
    return MOH_LANES_OF(maxpd);
  }
#else
  return a > b ? a : b;
#endif
}
template <class F>
[[gnu::always_inline]] inline Vec<F> smaller(Vec<F> a, Vec<F> b) {
#ifdef MOH_LANES_OF
  if constexpr (sizeof(F) == sizeof(float)) {
    return MOH_LANES_OF(minps);
  } else {
    return MOH_LANES_OF(minpd);
  }
#else
  return a < b ? a : b;
#endif
}
#undef MOH_LANES_OF

template <class F, int kCount, int kFirst, std::size_t... kLane>
[[gnu::always_inline]] inline Vec<F, kCount / 2> half(Vec<F, kCount> v, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(v, v, (kFirst + static_cast<int>(kLane))...);
}
/// The sum and the largest of all lanes, by pairwise halving.
template <class F, int kCount = kLanes<F>>
[[gnu::always_inline]] inline F sum_lanes(Vec<F, kCount> v) {
  if constexpr (kCount == 2) {
    return v[0] + v[1];
  } else {
    constexpr auto kHalf = std::make_index_sequence<kCount / 2>{};
    return sum_lanes<F, kCount / 2>(half<F, kCount, 0>(v, kHalf) + half<F, kCount, kCount / 2>(v, kHalf));
  }
}
template <class F, int kCount = kLanes<F>>
[[gnu::always_inline]] inline F max_lane(Vec<F, kCount> v) {
  if constexpr (kCount == 2) {
    return v[0] > v[1] ? v[0] : v[1];
  } else {
    constexpr auto kHalf = std::make_index_sequence<kCount / 2>{};
    const Vec<F, kCount / 2> low = half<F, kCount, 0>(v, kHalf), high = half<F, kCount, kCount / 2>(v, kHalf);
    return max_lane<F, kCount / 2>(low > high ? low : high);
  }
}

template <class F, std::size_t... kLane>
[[gnu::always_inline]] inline Vec<BitsOf<F>> lane_numbers(std::index_sequence<kLane...>) {
  return Vec<BitsOf<F>>{static_cast<BitsOf<F>>(kLane)...};
}
/// 0, 1, 2, ... as integers of F's size.
template <class F>
[[gnu::always_inline]] inline Vec<BitsOf<F>> lane_numbers() {
  return lane_numbers<F>(std::make_index_sequence<kLanes<F>>{});
}

/// Coefficients of 2^f for |f| <= 1/2, highest power first. float: minimax, relative error 2e-9,
/// below the rounding of the evaluation (8e-8). double: the Taylor series (ln 2)^k / k!, whose
/// remainder is below 1e-17.
template <class F>
struct Exp2Coefficients;
template <>
struct Exp2Coefficients<float> {
  static constexpr float kValues[] = {
      1.5345812e-4F, 1.33999312e-3F, 9.61848896e-3F, 5.55032878e-2F, 2.40226469e-1F, 6.93147206e-1F, 1.0F};
};
template <>
struct Exp2Coefficients<double> {
  static constexpr double kValues[] = {1.3691488853904124e-12, 2.5678435993488196e-11,
                                       4.44553827187081e-10,   7.054911620801121e-09,
                                       1.0178086009239696e-07, 1.3215486790144305e-06,
                                       1.5252733804059838e-05, 0.00015403530393381606,
                                       0.0013333558146428441,  0.009618129107628477,
                                       0.055504108664821576,   0.2402265069591007,
                                       0.6931471805599453,     1.0};
};

/// 2^x for x below about 127 (1023 for double), by the polynomial of Coefficients::kValues. Results below the
/// smallest normal number are zero, 2^-inf is, and NaN stays NaN.
template <class Coefficients, class F = float>
[[gnu::always_inline]] inline Vec<F> exp2_by(Vec<F> x) {
  constexpr int kMantissaBits = std::numeric_limits<F>::digits - 1;
  constexpr int kBias = std::numeric_limits<F>::max_exponent - 1;
  // Adding 1.5 * 2^mantissa rounds to an integer; with the bias on top, the low bits of the sum are the
  // exponent field of 2^n. n = -bias gives the field of zero.
  constexpr F kRound = F(3) * F(std::int64_t{1} << (kMantissaBits - 1)) + F(kBias);
  x = larger<F>(splat<F>(-F(kBias)), x);
  const Vec<F> shifted = x + kRound;
  const Vec<F> fraction = x - (shifted - kRound);
  Vec<F> power = splat<F>(Coefficients::kValues[0]);
  constexpr int kNumCoefficients = static_cast<int>(std::size(Coefficients::kValues));
#pragma GCC unroll 16
  for (int i = 1; i < kNumCoefficients; ++i) power = power * fraction + Coefficients::kValues[i];
  return power * (Vec<F>)((Vec<BitsOf<F>>)shifted << kMantissaBits);
}
template <class F>
[[gnu::always_inline]] inline Vec<F> exp2_lanes(Vec<F> x) {
  return exp2_by<Exp2Coefficients<F>, F>(x);
}

/// The logarithm to base 2 of positive normal numbers; absolute error below 2e-7 (3e-16 for double) relative
/// to the result or to 1, whichever is larger.
template <class F>
[[gnu::always_inline]] inline Vec<F> log2_lanes(Vec<F> x) {
  constexpr int kMantissaBits = std::numeric_limits<F>::digits - 1, kTerms = sizeof(F) == 8 ? 12 : 5;
  // x = 2^n m with m from sqrt(1/2) to sqrt(2), whose bits begin at those of sqrt(1/2).
  constexpr BitsOf<F> kLowest = sizeof(F) == 8 ? static_cast<BitsOf<F>>(0x3fe6a09e667f3bcdLL) : 0x3f3504f3;
  const Vec<BitsOf<F>> bits = (Vec<BitsOf<F>>)x - kLowest;
  const Vec<BitsOf<F>> n = bits >> kMantissaBits;
  const Vec<F> m = (Vec<F>)((Vec<BitsOf<F>>)x - (n << kMantissaBits));
  // ln m = 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...)
  const Vec<F> s = (m - F(1)) / (m + F(1)), squared = s * s;
  Vec<F> sum = splat<F>(F(1) / F(2 * kTerms + 1));
#pragma GCC unroll 16
  for (int i = kTerms - 1; i >= 0; --i) sum = sum * squared + F(1) / F(2 * i + 1);
  return __builtin_convertvector(n, Vec<F>) + s * sum * F(2.885390081777926815);
}

// Step of the transpose below: swaps the off-diagonal halves of each 2 kStep x 2 kStep block of two rows.
template <class F, int kStep, bool kUpper, std::size_t... kLane>
[[gnu::always_inline]] inline Vec<F> swap_blocks(Vec<F> a, Vec<F> b, std::index_sequence<kLane...>) {
  constexpr int kN = kLanes<F>;
  return __builtin_shufflevector(
      a, b,
      (kUpper ? ((static_cast<int>(kLane) & kStep) ? kN + static_cast<int>(kLane)
                                                   : static_cast<int>(kLane) + kStep)
              : ((static_cast<int>(kLane) & kStep) ? kN + static_cast<int>(kLane) - kStep
                                                   : static_cast<int>(kLane)))...);
}
/// Transposes a square of kLanes x kLanes elements held in rows.
template <class F, int kStep = 1>
[[gnu::always_inline]] inline void transpose_square(Vec<F> (&rows)[kLanes<F>]) {
  constexpr auto kAll = std::make_index_sequence<kLanes<F>>{};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<F>; ++i) {
    if (i & kStep) continue;
    const Vec<F> a = rows[i], b = rows[i + kStep];
    rows[i] = swap_blocks<F, kStep, false>(a, b, kAll);
    rows[i + kStep] = swap_blocks<F, kStep, true>(a, b, kAll);
  }
  if constexpr (kStep * 2 < kLanes<F>) transpose_square<F, kStep * 2>(rows);
}

/// The sums of the lanes of `kCount` vectors, sum i in lane i; what is in the other lanes is of no meaning.
/// Each step of the transpose above adds the two rows that it makes, which halves their number.
template <class F, int kCount, int kStep = 1>
[[gnu::always_inline]] inline Vec<F> sum_each(Vec<F> (&rows)[kCount]) {
  constexpr auto kAll = std::make_index_sequence<kLanes<F>>{};
  Vec<F> sums[(kCount + 1) / 2];
#pragma GCC unroll 8
  for (int i = 0; i < (kCount + 1) / 2; ++i) {
    const Vec<F> a = rows[2 * i], b = rows[2 * i + 1 < kCount ? 2 * i + 1 : 2 * i];
    sums[i] = swap_blocks<F, kStep, false>(a, b, kAll) + swap_blocks<F, kStep, true>(a, b, kAll);
  }
  if constexpr (kStep * 2 < kLanes<F>) {
    return sum_each<F, (kCount + 1) / 2, kStep * 2>(sums);
  } else {
    return sums[0];
  }
}

}  // namespace
}  // namespace moh
