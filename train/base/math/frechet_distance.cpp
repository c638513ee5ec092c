#include "train/base/math/frechet_distance.h"

#define EIGEN_DONT_PARALLELIZE  // results must not depend on the number of threads
#include <Eigen/Cholesky>
#include <Eigen/SVD>
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

constexpr std::int64_t kCentredRows = 1024;  // rows that are centred together

using Matrix = Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

[[noreturn]] void refuse(const char* expected, const char* found) {
  throw NumericError(error_message("frechet distance", "covariance", expected, found));
}

/// L [n, rank] with C = L L'. The rank is low where there are fewer rows than features.
Matrix factor_of(const Tensor& covariance) {
  const std::int64_t n = covariance.dim(0);
  const Eigen::Map<const RowMajor> c(covariance.data<double>(), n, n);
  if (!c.allFinite()) refuse("finite numbers", "others");
  const double largest = c.cwiseAbs().maxCoeff();
  constexpr double kAsWritten = 1e-5;  // of files in float32
  if ((c - c.transpose()).cwiseAbs().maxCoeff() > kAsWritten * largest)
    refuse("a symmetric matrix", "another one");
  const Eigen::LDLT<Matrix> ldlt(c);
  const Eigen::VectorXd pivots = ldlt.vectorD();
  const double rounding = static_cast<double>(n) * std::numeric_limits<double>::epsilon() * largest;
  if (pivots.minCoeff() < -std::max(kAsWritten * largest, rounding))
    refuse("eigenvalues of 0 and more", "negative ones");
  std::vector<Eigen::Index> kept;
  for (Eigen::Index i = 0; i < n; ++i) {
    if (pivots[i] > rounding) kept.push_back(i);
  }
  const Matrix lower = ldlt.matrixL();
  return ldlt.transpositionsP().transpose() *
         Matrix(lower(Eigen::all, kept) * pivots(kept).cwiseSqrt().asDiagonal());
}

}  // namespace

Moments moments_of(const Tensor& rows) {
  const std::int64_t count = rows.dim(0), width = rows.dim(1);
  if (count < 2) throw ShapeError(error_message("moments", "rows", "2 or more", std::to_string(count)));
  Moments moments{zeros({width}, DType::kFloat64), zeros({width, width}, DType::kFloat64)};
  double* mean = moments.mean.data<double>();
  const double* x = rows.data<double>();
  for (std::int64_t i = 0; i < count * width; ++i) mean[i % width] += x[i];
  for (std::int64_t j = 0; j < width; ++j) mean[j] /= static_cast<double>(count);
  for (std::int64_t first = 0; first < count; first += kCentredRows) {
    const Tensor centred = rows.slice(first, std::min(first + kCentredRows, count)).clone();
    double* c = centred.data<double>();
    for (std::int64_t i = 0; i < centred.numel(); ++i) c[i] -= mean[i % width];
    matmul_into(moments.covariance, transposed(centred), centred, /*accumulate=*/true);
  }
  for (double& value : moments.covariance.span<double>()) value /= static_cast<double>(count - 1);
  return moments;
}

double frechet_distance(const Moments& a, const Moments& b) {
  const std::int64_t n = a.mean.numel();
  if (b.mean.numel() != n || a.covariance.shape() != Shape{n, n} || b.covariance.shape() != Shape{n, n})
    throw ShapeError(error_message("frechet distance", "features", std::to_string(n) + " wide",
                                   to_string(b.covariance.shape())));
  double distance = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double difference = a.mean.data<double>()[i] - b.mean.data<double>()[i];
    distance += difference * difference;
    distance += a.covariance.data<double>()[i * n + i] + b.covariance.data<double>()[i * n + i];
  }
  if (n == 0) return 0;
  const Matrix crossed = factor_of(a.covariance).transpose() * factor_of(b.covariance);
  if (crossed.size() == 0) return distance;
  const Eigen::BDCSVD<Matrix> svd(crossed);
  return distance - 2 * svd.singularValues().sum();
}

}  // namespace moh
