#pragma once

namespace moh {

/// The hard-concrete distribution of a mask z in [0, 1] (Louizos, Welling & Kingma 2018, arXiv 1712.01312):
/// with u uniform in (0, 1),
///   s = sigmoid((ln u - ln(1 - u) + log_alpha) / beta),  z = min(1, max(0, s (zeta - gamma) + gamma)),
/// so that 0 and 1 have probabilities above 0. beta = 2/3, gamma = -0.1, zeta = 1.1.
namespace hard_concrete {

struct Mask {
  double z;
  double slope;  ///< dz / d log_alpha
};
Mask sample(double log_alpha, double u);

/// P(z > 0) = sigmoid(log_alpha - beta ln(-gamma / zeta)).
double probability_on(double log_alpha);

}  // namespace hard_concrete

}  // namespace moh
