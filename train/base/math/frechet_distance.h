#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// Mean and covariance of points: mean [D], covariance [D, D], float64 on the CPU.
struct Moments {
  Tensor mean, covariance;
};

/// Moments of N rows [N, D], float64 on the CPU, N >= 2: the covariance divides by N - 1, as numpy.cov. Bits
/// do not depend on the number of threads. Throws ShapeError.
Moments moments_of(const Tensor& rows);

/// The squared Frechet (2-Wasserstein) distance of two normal distributions (Heusel et al. 2017, arXiv
/// 1706.08500, "FID"):
///   |m1 - m2|^2 + tr C1 + tr C2 - 2 tr (C1 C2)^(1/2).
/// The trace of the root is the sum of the singular values of L1' L2, where C = L L' by a pivoted Cholesky
/// decomposition: no eigenvalue is rooted, so that a covariance of few points, which is singular, loses no
/// digits. float64 throughout, by Eigen on one thread. Throws ShapeError for two sizes, NumericError for a
/// matrix that is no covariance: not finite, not symmetric, or with negative eigenvalues.
double frechet_distance(const Moments& a, const Moments& b);

}  // namespace moh
