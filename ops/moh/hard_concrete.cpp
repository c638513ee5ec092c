#include "ops/moh/hard_concrete.h"

#include <cmath>

namespace moh::hard_concrete {

namespace {

constexpr double kBeta = 2.0 / 3.0, kGamma = -0.1, kZeta = 1.1;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

Mask sample(double log_alpha, double u) {
  const double s = sigmoid((std::log(u) - std::log1p(-u) + log_alpha) / kBeta);
  const double stretched = s * (kZeta - kGamma) + kGamma;
  if (stretched <= 0) return {0, 0};
  if (stretched >= 1) return {1, 0};
  return {stretched, (kZeta - kGamma) * s * (1 - s) / kBeta};
}

double probability_on(double log_alpha) {
  return sigmoid(log_alpha - kBeta * std::log(-kGamma / kZeta));
}

}  // namespace moh::hard_concrete
