#include "train/base/math/symmetric_eigenvalues.h"

#define EIGEN_DONT_PARALLELIZE  // results must not depend on the number of threads
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"

namespace moh {

std::vector<double> symmetric_eigenvalues(const std::vector<double>& matrix, std::int64_t n) {
  if (n < 0 || static_cast<std::int64_t>(matrix.size()) != n * n) {
    throw ShapeError(error_message("symmetric_eigenvalues", "matrix",
                                   "n x n elements with n = " + std::to_string(n),
                                   std::to_string(matrix.size())));
  }
  MOH_CHECK(std::ranges::all_of(matrix, [](double x) { return std::isfinite(x); }), "the matrix is finite");
  if (n == 0) return {};
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const RowMajor> a(matrix.data(), n, n);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(a, Eigen::EigenvaluesOnly);
  MOH_CHECK(solver.info() == Eigen::Success, "the QR iteration converges");
  const Eigen::VectorXd descending = solver.eigenvalues().reverse();
  return {descending.begin(), descending.end()};
}

}  // namespace moh
