#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Functions of vectors (ops/cpu/simd.h), without branches or calls in float. double goes to the C library,
// lane by lane: it serves gradient checks.

#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// fn(x), lane by lane.
template <class Fn>
[[gnu::always_inline]] inline Vec<double> map_lanes(Vec<double> x, const Fn& fn) {
  Vec<double> y{};
  for (int i = 0; i < kLanes<double>; ++i) y[i] = fn(x[i]);
  return y;
}

/// The square root, which compilers make one instruction of.
template <class F>
[[maybe_unused]] [[gnu::always_inline]] inline Vec<F> sqrt_lanes(Vec<F> x) {
  Vec<F> y;
  for (int i = 0; i < kLanes<F>; ++i) y[i] = std::sqrt(x[i]);
  return y;
}

/// e^x from -88, where it gives 0, to 89; infinite above 88.4. NaN stays NaN.
[[gnu::always_inline]] inline Vec<float> exp_in_range(Vec<float> x) {
  // x = n ln 2 + r: adding 1.5 * 2^23 rounds to an integer, which is then the low bits of the sum. With the
  // exponent's bias on top they are the exponent field of 2^n. n * kHigh is exact.
  constexpr float kRound = 12582912.0F + 127.0F, kHigh = 0.693359375F, kLow = -2.12194440e-4F;
  const Vec<float> shifted = x * 1.44269504F + kRound;
  const Vec<float> n = shifted - kRound;
  const Vec<float> r = (x - n * kHigh) - n * kLow;
  // e^r, minimax on |r| <= ln(2) / 2: relative error 3e-9.
  Vec<float> p = 1.381446729e-3F * r + 8.368780792e-3F;
  p = p * r + 4.166839424e-2F;
  p = p * r + 1.666652010e-1F;
  p = p * r + 4.999999341e-1F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  return p * (Vec<float>)((Vec<std::int32_t>)shifted << 23);
}

/// e^x for x <= 0. float: relative error below 1.3e-7 where the result is a normal number; 0 below -87.7, for
/// -inf too; NaN stays NaN.
[[maybe_unused]] [[gnu::always_inline]] inline Vec<float> exp_of_negative(Vec<float> x) {
  return exp_in_range(larger<float>(splat(-88.0F), x));
}
[[maybe_unused]] [[gnu::always_inline]] inline Vec<double> exp_of_negative(Vec<double> x) {
  return map_lanes(x, [](double lane) { return std::exp(lane); });
}

/// The logistic function s(x) = 1 / (1 + e^-x), and 1 - s(x) without cancellation; that is 1 or NaN for a
/// NaN.
template <class A>
struct Sigmoid {
  Vec<A> value;
  Vec<A> rest;
};
[[maybe_unused]] [[gnu::always_inline]] inline Sigmoid<float> sigmoid_of(Vec<float> x) {
  const Vec<float> e = exp_in_range(-larger<float>(splat(-89.0F), smaller<float>(splat(88.0F), x)));
  const Vec<float> value = 1.0F / (1.0F + e);
  return {value, smaller<float>(e * value, splat(1.0F))};  // infinity times 0 is NaN, and becomes 1
}
[[maybe_unused]] [[gnu::always_inline]] inline Sigmoid<double> sigmoid_of(Vec<double> x) {
  return {map_lanes(x, [](double lane) { return 1 / (1 + std::exp(-lane)); }),
          map_lanes(x, [](double lane) { return 1 / (1 + std::exp(lane)); })};
}

/// The standard normal distribution at x: cumulative probability and density.
template <class A>
struct Normal {
  Vec<A> cumulative;
  Vec<A> density;
};
/// float: with z = |x| and t = 1 / (1 + 0.3 z), the tail beyond z is e^(-z^2 / 2) t P(t), minimax to a
/// relative error of 4e-9 up to z = 14.5, where e^(-z^2 / 2) vanishes. What remains is the rounding of z^2
/// / 2.
[[maybe_unused]] [[gnu::always_inline]] inline Normal<float> normal_of(Vec<float> x) {
  const Vec<float> z = (Vec<float>)((Vec<std::int32_t>)x & 0x7fffffff);
  const Vec<float> bell = exp_of_negative(-0.5F * x * x);
  const Vec<float> t = 1.0F / (1.0F + 0.3F * z);
  Vec<float> p = -2.062334525e-2F * t + 1.124349420e-1F;
  p = p * t - 2.282120301e-1F;
  p = p * t + 1.917824613e-1F;
  p = p * t - 7.942179270e-2F;
  p = p * t + 9.615594063e-2F;
  p = p * t + 7.838994877e-2F;
  p = p * t + 1.102353631e-1F;
  p = p * t + 1.195718209e-1F;
  p = p * t + 1.196866895e-1F;
  const Vec<float> tail = bell * (t * p);
  return {x < 0.0F ? tail : 1.0F - tail, bell * 0.398942280F};
}
[[maybe_unused]] [[gnu::always_inline]] inline Normal<double> normal_of(Vec<double> x) {
  return {map_lanes(x, [](double lane) { return 0.5 * std::erfc(lane * -0.70710678118654752); }),
          map_lanes(x, [](double lane) { return std::exp(-0.5 * lane * lane) * 0.39894228040143268; })};
}

}  // namespace
}  // namespace moh
