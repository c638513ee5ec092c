#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/activation/gelu.h"
#include "ops/cpu/brief_math.h"

namespace moh {
namespace {

/// gelu(x) and its derivative; the compiler drops the one that a caller does not use.
template <class A>
struct GeluAt {
  Vec<A> value, slope;
};

/// For values that are stored as T.
template <class T>
struct ExactGelu {
  using A = Acc<T>;

  /// With P = P(Z <= x): x P, and P + x times the density at x.
  [[gnu::always_inline]] inline GeluAt<A> operator()(Vec<A> x) const {
    const Normal<A> n = normal_for<T>(x);
    return {x * n.cumulative, n.cumulative + x * n.density};
  }
};

// (1 + tanh(u)) / 2 is the logistic function s(2u), so the tanh form is y = x s(2u) with 2u = ax + bx^3:
// a = 2 sqrt(2 / pi), b = 0.044715 a.
template <class T>
struct TanhGelu {
  using A = Acc<T>;
  static constexpr A kLinear = A(1.5957691216057308), kCubic = A(1.5957691216057308 * 0.044715);

  /// x s, and s + x s (1 - s) d(2u)/dx.
  [[gnu::always_inline]] inline GeluAt<A> operator()(Vec<A> x) const {
    const Sigmoid<A> s = sigmoid_for<T>(x * (kLinear + kCubic * x * x));
    // Where s (1 - s) has become 0, x^3 may be infinite: the bound keeps their product at 0.
    const Vec<A> bounded = larger<A>(splat(A(-100)), smaller<A>(splat(A(100)), x));
    return {x * s.value, s.value + s.value * s.rest * bounded * (kLinear + 3 * kCubic * bounded * bounded)};
  }
};

/// Calls fn with the function object of a form for values stored as T, so that the form is a compile-time
/// constant in loops.
template <class T, class Fn>
[[maybe_unused]] [[gnu::always_inline]] inline void with_gelu(GeluForm form, const Fn& fn) {
  form == GeluForm::kExact ? fn(ExactGelu<T>{}) : fn(TanhGelu<T>{});
}

}  // namespace
}  // namespace moh
