#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Scalar functions without branches or calls in float, so that a loop under `omp simd` vectorises with any
// instruction set. double goes to the C library: it serves gradient checks.

#include <bit>
#include <cmath>
#include <cstdint>

namespace moh {
namespace {

/// e^x for x <= 0. float: relative error below 1.3e-7 where the result is a normal number; 0 below -87.7, for
/// -inf too; NaN stays NaN.
[[maybe_unused]] [[gnu::always_inline]] inline float exp_of_negative(float x) {
  x = x < -88.0F ? -88.0F : x;  // here 2^n below is 0 already, and a NaN passes
  // x = n ln 2 + r: adding 1.5 * 2^23 rounds to an integer, which is then the low bits of the sum. With the
  // exponent's bias on top they are the exponent field of 2^n. n * kHigh is exact.
  constexpr float kRound = 12582912.0F + 127.0F, kHigh = 0.693359375F, kLow = -2.12194440e-4F;
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kHigh) - n * kLow;
  // e^r, minimax on |r| <= ln(2) / 2: relative error 3e-9.
  float p = 1.381446729e-3F;
  p = p * r + 8.368780792e-3F;
  p = p * r + 4.166839424e-2F;
  p = p * r + 1.666652010e-1F;
  p = p * r + 4.999999341e-1F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  return p * std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
}
[[maybe_unused]] [[gnu::always_inline]] inline double exp_of_negative(double x) {
  return std::exp(x);
}

/// The logistic function s(x) = 1 / (1 + e^-x), and 1 - s(x) without cancellation.
template <class A>
struct Sigmoid {
  A value;
  A rest;
};
template <class A>
[[maybe_unused]] [[gnu::always_inline]] inline Sigmoid<A> sigmoid_of(A x) {
  const A e = exp_of_negative(x < A(0) ? x : -x);
  const A large = A(1) / (A(1) + e);
  const A small = e * large;
  return x < A(0) ? Sigmoid<A>{small, large} : Sigmoid<A>{large, small};
}

/// The standard normal distribution at x: cumulative probability and density.
template <class A>
struct Normal {
  A cumulative;
  A density;
};
/// float: with z = |x| and t = 1 / (1 + 0.3 z), the tail beyond z is e^(-z^2 / 2) t P(t), minimax to a
/// relative error of 4e-9 up to z = 14.5, where e^(-z^2 / 2) vanishes. What remains is the rounding of z^2
/// / 2.
[[maybe_unused]] [[gnu::always_inline]] inline Normal<float> normal_of(float x) {
  const float z = x < 0.0F ? -x : x;
  const float bell = exp_of_negative(-0.5F * z * z);
  const float t = 1.0F / (1.0F + 0.3F * z);
  float p = -2.062334525e-2F;
  p = p * t + 1.124349420e-1F;
  p = p * t - 2.282120301e-1F;
  p = p * t + 1.917824613e-1F;
  p = p * t - 7.942179270e-2F;
  p = p * t + 9.615594063e-2F;
  p = p * t + 7.838994877e-2F;
  p = p * t + 1.102353631e-1F;
  p = p * t + 1.195718209e-1F;
  p = p * t + 1.196866895e-1F;
  const float tail = bell * (t * p);
  return {x < 0.0F ? tail : 1.0F - tail, bell * 0.398942280F};
}
[[maybe_unused]] [[gnu::always_inline]] inline Normal<double> normal_of(double x) {
  return {0.5 * std::erfc(x * -0.70710678118654752), std::exp(-0.5 * x * x) * 0.39894228040143268};
}

}  // namespace
}  // namespace moh
