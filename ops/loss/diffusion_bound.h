#pragma once

// For kernel files: everything here has internal linkage.

#include <cmath>

#include "ops/loss/diffusion_loss.h"

namespace moh {
namespace {

/// A sample's element: x_0, x_t, the predicted noise, and v, which says the variance.
struct DiffusionElement {
  double start, sample, noise, v;
};

/// L of an element, in bits, and its derivative with respect to v.
struct BoundTerm {
  double value, slope;
};

/// The distribution function of the standard normal, approximated, and its derivative.
struct ApproximateNormal {
  double cumulative, density;
};

/// constexpr, so that device code may call it.
[[maybe_unused]] constexpr ApproximateNormal approximate_normal(double x) {
  constexpr double kLinear = 0.79788456080286535588, kCubic = 0.044715;  // sqrt(2 / pi)
  const double t = std::tanh(kLinear * (x + kCubic * x * x * x));
  return {0.5 * (1 + t), 0.5 * (1 - t * t) * kLinear * (1 + 3 * kCubic * x * x)};
}

/// -ln of a probability, not below 1e-12, whose derivative is `slope`.
[[maybe_unused]] constexpr BoundTerm surprise(double probability, double slope) {
  constexpr double kLeast = 1e-12;
  if (probability <= kLeast) return {-std::log(kLeast), 0};
  return {-std::log(probability), -slope / probability};
}

/// -ln of the likelihood of `start` in bins of 2 / 255, open at the ends, under a normal distribution around
/// `mean`; the slope is that along the logarithm of its variance.
[[maybe_unused]] constexpr BoundTerm pixel_surprise(double start, double mean, double log_variance) {
  constexpr double kHalfBin = 1.0 / 255, kEdge = 0.999;
  const double scale = std::exp(-0.5 * log_variance);
  const double high = scale * (start - mean + kHalfBin), low = scale * (start - mean - kHalfBin);
  const ApproximateNormal above = approximate_normal(high), below = approximate_normal(low);
  // Both ends of the bin move with -1/2 of themselves.
  const double of_high = -0.5 * high * above.density, of_low = -0.5 * low * below.density;
  if (start < -kEdge) return surprise(above.cumulative, of_high);
  if (start > kEdge) return surprise(1 - below.cumulative, -of_low);
  return surprise(above.cumulative - below.cumulative, of_high - of_low);
}

/// The term of an element, with the factors of its sample (DiffusionFactor).
template <class A>
[[maybe_unused]] constexpr BoundTerm bound_term(const DiffusionElement& x, const A* factors) {
  const double log_beta = factors[kLogBeta], log_posterior = factors[kLogPosterior];
  const double share = 0.5 * (x.v + 1);
  const double log_variance = share * log_beta + (1 - share) * log_posterior;
  const double start = factors[kPerSignal] * x.sample - factors[kPerNoise] * x.noise;
  BoundTerm term{0, 0};
  if (factors[kFirstStep] != 0) {
    const double mean = factors[kMeanOfStart] * start + factors[kMeanOfSample] * x.sample;
    term = pixel_surprise(x.start, mean, log_variance);
  } else {
    const double off = factors[kMeanOfStart] * (x.start - start);  // between the means
    const double ratio = std::exp(log_posterior - log_variance) + off * off * std::exp(-log_variance);
    term = {0.5 * (log_variance - log_posterior - 1 + ratio), 0.5 * (1 - ratio)};
  }
  constexpr double kBits = 1.44269504088896340736;  // 1 / ln 2
  return {kBits * term.value, kBits * term.slope * 0.5 * (log_beta - log_posterior)};
}

}  // namespace
}  // namespace moh
