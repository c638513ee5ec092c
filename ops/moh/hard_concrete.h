#pragma once

#include <cmath>

namespace moh {

/// The hard-concrete distribution of a mask z in [0, 1] (Louizos, Welling & Kingma 2018, arXiv 1712.01312):
/// with u uniform in (0, 1),
///   s = sigmoid((ln u - ln(1 - u) + log_alpha) / beta),  z = min(1, max(0, s (zeta - gamma) + gamma)),
/// so that 0 and 1 have probabilities above 0. beta = 2/3, gamma = -0.1, zeta = 1.1. In F, float or double.
/// constexpr, so that device code may call it.
namespace hard_concrete {

template <class F>
inline constexpr F kBeta = F(2) / F(3);
template <class F>
inline constexpr F kGamma = F(-0.1);
template <class F>
inline constexpr F kZeta = F(1.1);
/// Uniform numbers of random_uniform() are k 2^-24, k >= 0; a draw of 0 would be -infinity. Added to them.
inline constexpr double kHalfStep = 0x1p-25;

template <class F>
struct Mask {
  F z;
  F slope;  ///< dz / d log_alpha
};

template <class F>
constexpr F sigmoid(F x) {
  return 1 / (1 + std::exp(-x));
}

template <class F>
constexpr Mask<F> sample(F log_alpha, F u) {
  constexpr F kWidth = kZeta<F> - kGamma<F>;
  const F s = sigmoid((std::log(u) - std::log1p(-u) + log_alpha) / kBeta<F>),
          stretched = s * kWidth + kGamma<F>;
  if (stretched <= 0) return {0, 0};
  if (stretched >= 1) return {1, 0};
  return {stretched, kWidth * s * (1 - s) / kBeta<F>};
}

/// P(z > 0) = sigmoid(log_alpha - beta ln(-gamma / zeta)).
template <class F>
constexpr F probability_on(F log_alpha) {
  return sigmoid(log_alpha - kBeta<F> * std::log(-kGamma<F> / kZeta<F>));
}

}  // namespace hard_concrete

}  // namespace moh
