#include "train/base/math/least_squares.h"

#include <cmath>

#include "core/parallel.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

/// Cholesky factorisation a = l l^T, in place in the lower triangle. a [n, n] is positive definite.
void factorise(double* a, std::int64_t n) {
  constexpr std::int64_t kRows = 16;
  for (std::int64_t k = 0; k < n; ++k) {
    double* pivot = a + k * n;
    for (std::int64_t j = 0; j < k; ++j) pivot[k] -= pivot[j] * pivot[j];
    pivot[k] = std::sqrt(pivot[k]);
    parallel_for(n - k - 1, kRows, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = k + 1 + begin; i < k + 1 + end; ++i) {
        double sum = a[i * n + k];
        for (std::int64_t j = 0; j < k; ++j) sum -= a[i * n + j] * pivot[j];
        a[i * n + k] = sum / pivot[k];
      }
    });
  }
}

/// Solves l l^T x = b by forward and back substitution; x overwrites b.
void substitute(const double* l, double* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) b[i] -= l[i * n + j] * b[j];
    b[i] /= l[i * n + i];
  }
  for (std::int64_t i = n - 1; i >= 0; --i) {
    b[i] /= l[i * n + i];
    for (std::int64_t j = 0; j < i; ++j) b[j] -= l[i * n + j] * b[i];
  }
}

double trace_of(const Tensor& square) {
  double sum = 0;
  for (std::int64_t i = 0; i < square.dim(0); ++i) sum += square.data<double>()[i * square.dim(0) + i];
  return sum;
}

}  // namespace

LeastSquares::LeastSquares(std::int64_t inputs, std::int64_t outputs)
    : inputs_(inputs),
      outputs_(outputs),
      gram_(zeros({inputs, inputs}, DType::kFloat64)),
      cross_(zeros({outputs, inputs}, DType::kFloat64)) {}

void LeastSquares::add(const Tensor& x, const Tensor& y) {
  const Tensor y_like_x = y.to(DType::kFloat32).to(x.device());
  gram_.add(matmul(transposed(x), x, DType::kFloat32).to(kCpu));
  cross_.add(matmul(transposed(y_like_x), x, DType::kFloat32).to(kCpu));
  rows_ += x.dim(0);
}

Tensor LeastSquares::solve(double ridge) const {
  Tensor w = cross_.clone();
  const Tensor a = gram_.clone();
  const double penalty = ridge * trace_of(gram_) / static_cast<double>(inputs_);
  if (!(penalty > 0)) return zeros(w.shape(), DType::kFloat64);
  for (std::int64_t i = 0; i < inputs_; ++i) a.data<double>()[i * inputs_ + i] += penalty;
  factorise(a.data<double>(), inputs_);
  parallel_for(outputs_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e)
      substitute(a.data<double>(), w.data<double>() + e * inputs_, inputs_);
  });
  return w;
}

double LeastSquares::mean_square_of(const Tensor& w) const {
  double sum = 0;
  for (std::int64_t e = 0; e < w.dim(0); ++e) {
    const double* row = w.data<double>() + e * inputs_;
    for (std::int64_t i = 0; i < inputs_; ++i) {
      const double* gram = gram_.data<double>() + i * inputs_;
      double along = 0;
      for (std::int64_t j = 0; j < inputs_; ++j) along += gram[j] * row[j];
      sum += row[i] * along;
    }
  }
  return rows_ > 0 ? sum / static_cast<double>(rows_) : 0.0;
}

}  // namespace moh
