#pragma once

#include <cstdint>
#include <vector>

namespace moh {

/// The eigenvalues of a symmetric matrix [n, n], largest first, in float64 by Eigen's tridiagonalisation and
/// QR iteration on one thread. Their error is about n x 1e-16 times the largest magnitude. Elements must be
/// finite; those above the diagonal are not read. Throws ShapeError.
std::vector<double> symmetric_eigenvalues(const std::vector<double>& matrix, std::int64_t n);

}  // namespace moh
