#pragma once

// For kernel files (*_cuda.cu) only.

#include <cmath>

#include "ops/activation/gelu.h"
#include "ops/activation/sigmoid_cuda.h"

namespace moh {

/// gelu(x) and its derivative; the compiler drops the one that a caller does not use.
struct GeluAt {
  float value, slope;
};

struct ExactGelu {
  /// With P = P(Z <= x): x P, and P + x times the density at x.
  MOH_DEVICE static GeluAt at(float x) {
    constexpr float kRootOfHalf = 0.70710678118654752F, kDensity = 0.39894228040143268F;
    const float cumulative = 0.5F * erfcf(-x * kRootOfHalf);  // to full relative accuracy in both tails
    return {x * cumulative, cumulative + x * kDensity * expf(-0.5F * x * x)};
  }
};

// (1 + tanh(u)) / 2 is the logistic function s(2u), so the tanh form is y = x s(2u) with 2u = ax + bx^3:
// a = 2 sqrt(2 / pi), b = 0.044715 a.
struct TanhGelu {
  /// x s, and s + x s (1 - s) d(2u)/dx.
  MOH_DEVICE static GeluAt at(float x) {
    constexpr float kLinear = 1.5957691216057308F, kCubic = kLinear * 0.044715F;
    const SigmoidPair s = sigmoid_pair(x * (kLinear + kCubic * x * x));
    // Where s (1 - s) has become 0, x^3 may be infinite: the bound keeps their product at 0.
    const float bounded = fminf(fmaxf(x, -100.0F), 100.0F);
    return {x * s.value, s.value + s.value * s.rest * bounded * (kLinear + 3 * kCubic * bounded * bounded)};
  }
};

/// Calls fn with the struct of a form.
template <class Fn>
void with_gelu(GeluForm form, const Fn& fn) {
  form == GeluForm::kExact ? fn(ExactGelu{}) : fn(TanhGelu{});
}

}  // namespace moh
