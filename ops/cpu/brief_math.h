#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Functions of vectors (ops/cpu/math.h) for results that are rounded to bfloat16: with shorter polynomials
// and without divisions, their relative errors are below 2^-11.9, a fifteenth of what rounding costs.

#include <type_traits>

#include "ops/cpu/math.h"

namespace moh {
namespace {

/// Whether kernels of T round so coarsely. Those of the other instruction sets keep their bits.
template <class T>
constexpr bool kIsBrief = kHasPairs&& std::is_same_v<T, bfloat16>;

/// Coefficients of 2^f for |f| <= 1/2, minimax, relative error 7.5e-5.
struct BriefExp2 {
  static constexpr float kValues[] = {5.51716694e-2F, 2.42611122e-1F, 6.93260985e-1F, 9.99928074e-1F};
};

/// 1 / x, of AVX512 with a relative error of 2^-14; 0 for infinity.
[[maybe_unused]] [[gnu::always_inline]] inline Vec<float> brief_reciprocal(Vec<float> x) {
#if defined(__AVX512F__)
  return (Vec<float>)_mm512_maskz_rcp14_ps(~__mmask16{0}, (__m512)x);
#else
  return 1.0F / x;
#endif
}

/// sigmoid_of(); infinite e^-x gives 0 and 1 there, too.
[[maybe_unused]] [[gnu::always_inline]] inline Sigmoid<float> brief_sigmoid_of(Vec<float> x) {
  const Vec<float> bounded = larger<float>(splat(-89.0F), smaller<float>(splat(88.0F), x));
  const Vec<float> e = exp2_by<BriefExp2>(bounded * -1.44269504F);
  const Vec<float> value = brief_reciprocal(1.0F + e);
  return {value, smaller<float>(e * value, splat(1.0F))};
}

/// normal_of(): with z = |x| and t = 1 / (1 + z / 4), the tail is e^(-z^2 / 2) t P(t), minimax to 5.8e-5.
[[maybe_unused]] [[gnu::always_inline]] inline Normal<float> brief_normal_of(Vec<float> x) {
  const Vec<float> z = (Vec<float>)((Vec<std::int32_t>)x & 0x7fffffff);
  const Vec<float> bell = exp2_by<BriefExp2>(x * x * -0.721347520F);
  const Vec<float> t = brief_reciprocal(1.0F + 0.25F * z);
  Vec<float> p = 2.40084163e-1F * t - 1.00221284e-1F;
  p = p * t + 1.77268190e-1F;
  p = p * t + 8.16297971e-2F;
  p = p * t + 1.01210806e-1F;
  const Vec<float> tail = bell * (t * p);
  return {x < 0.0F ? tail : 1.0F - tail, bell * 0.398942280F};
}

/// sigmoid_of() and normal_of(), as exact as values of T are.
template <class T>
[[gnu::always_inline]] inline Sigmoid<Acc<T>> sigmoid_for(Vec<Acc<T>> x) {
  if constexpr (kIsBrief<T>) {
    return brief_sigmoid_of(x);
  } else {
    return sigmoid_of(x);
  }
}
template <class T>
[[gnu::always_inline]] inline Normal<Acc<T>> normal_for(Vec<Acc<T>> x) {
  if constexpr (kIsBrief<T>) {
    return brief_normal_of(x);
  } else {
    return normal_of(x);
  }
}

}  // namespace
}  // namespace moh
