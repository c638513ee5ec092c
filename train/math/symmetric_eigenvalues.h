#pragma once

#include <cstdint>
#include <vector>

namespace moh {

/// The eigenvalues of a symmetric matrix [n, n] in float64, largest first, each with an error of about n x
/// 1e-16 times the largest in magnitude. Householder reflections bring the matrix into tridiagonal form,
/// where counts of sign changes (Sturm sequences) enclose every eigenvalue (Golub & Van Loan, Matrix
/// Computations, 8.3.1 and 8.4.1); n^3 multiply-adds. Elements must be finite; those above the diagonal are
/// not read. Throws ShapeError.
std::vector<double> symmetric_eigenvalues(std::vector<double> matrix, std::int64_t n);

}  // namespace moh
