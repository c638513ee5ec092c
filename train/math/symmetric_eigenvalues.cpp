#include "train/math/symmetric_eigenvalues.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "core/error.h"
#include "core/parallel.h"

namespace moh {

namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
/// Rows of a chunk of a parallel loop: about 64 K elements, so that small matrices stay on one thread.
std::int64_t grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(columns, 1));
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Tridiagonal {
  std::vector<double> diagonal, below;  // n, n - 1
};

/// A symmetric matrix whose leading rows and columns are reduced one after the other.
class Reduction {
 public:
  Reduction(std::vector<double> matrix, std::int64_t n)
      : a_(std::move(matrix)), n_(n), v_(size()), w_(size()) {
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = 0; j < i; ++j) at(j, i) = at(i, j);
    }
  }

  Tridiagonal run() {
    Tridiagonal result;
    for (std::int64_t k = 0; k + 1 < n_; ++k) result.below.push_back(reduce_column(k));
    for (std::int64_t i = 0; i < n_; ++i) result.diagonal.push_back(at(i, i));
    return result;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(n_); }
  double& at(std::int64_t i, std::int64_t j) { return a_[static_cast<std::size_t>(i * n_ + j)]; }
  std::span<double> row(std::int64_t i, std::int64_t from) {
    return std::span(a_).subspan(static_cast<std::size_t>(i * n_ + from),
                                 static_cast<std::size_t>(n_ - from));
  }

  /// Reflects column k below the diagonal onto its first element, which is returned, and the rest of the
  /// matrix with it: A <- (1 - b v v') A (1 - b v v') with b = 2 / v'v.
  double reduce_column(std::int64_t k) {
    const std::int64_t first = k + 1;
    const std::span v = std::span(v_).subspan(static_cast<std::size_t>(first));
    std::ranges::copy(row(k, first), v.begin());
    const double rest = dot(v.subspan(1), v.subspan(1));
    if (rest == 0) return v[0];
    const double target = std::copysign(std::sqrt(v[0] * v[0] + rest), -v[0]);
    v[0] -= target;
    apply(first, v, 2 / (v[0] * v[0] + rest));
    return target;
  }

  /// A <- A - v w' - w v' with w = p - b/2 (p'v) v, p = b A v.
  void apply(std::int64_t first, std::span<const double> v, double b) {
    const std::span w = std::span(w_).subspan(static_cast<std::size_t>(first));
    const auto rows = static_cast<std::int64_t>(v.size());
    parallel_for(rows, grain(rows), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        w[static_cast<std::size_t>(i)] = b * dot(row(first + i, first), v);
    });
    const double along = b / 2 * dot(w, v);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= along * v[i];
    parallel_for(rows, grain(rows), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double vi = v[static_cast<std::size_t>(i)], wi = w[static_cast<std::size_t>(i)];
        const std::span<double> to = row(first + i, first);
        for (std::size_t j = 0; j < to.size(); ++j) to[j] -= vi * w[j] + wi * v[j];
      }
    });
  }

  std::vector<double> a_;
  std::int64_t n_;
  std::vector<double> v_, w_;
};

/// Number of eigenvalues below x: the negative pivots of T - x (Sylvester's law of inertia).
std::int64_t count_below(const Tridiagonal& t, double x, double tiny) {
  std::int64_t count = 0;
  double pivot = 1;
  for (std::size_t i = 0; i < t.diagonal.size(); ++i) {
    const double coupling = i == 0 ? 0 : t.below[i - 1] * t.below[i - 1] / pivot;
    pivot = t.diagonal[i] - x - coupling;
    if (std::abs(pivot) < tiny) pivot = -tiny;
    count += pivot < 0 ? 1 : 0;
  }
  return count;
}

/// Gershgorin: all eigenvalues have at most this magnitude.
double bound_of(const Tridiagonal& t) {
  double bound = 0;
  for (std::size_t i = 0; i < t.diagonal.size(); ++i) {
    const double left = i > 0 ? std::abs(t.below[i - 1]) : 0;
    const double right = i < t.below.size() ? std::abs(t.below[i]) : 0;
    bound = std::max(bound, std::abs(t.diagonal[i]) + left + right);
  }
  return bound;
}

/// The eigenvalue that has `rank` others below it.
double bisect(const Tridiagonal& t, std::int64_t rank, double bound) {
  const double tiny = bound * kEpsilon * kEpsilon;
  double low = -bound, high = bound;
  while (high - low > kEpsilon * bound) {
    const double middle = low + (high - low) / 2;
    (count_below(t, middle, tiny) > rank ? high : low) = middle;
  }
  return low + (high - low) / 2;
}

}  // namespace

std::vector<double> symmetric_eigenvalues(std::vector<double> matrix, std::int64_t n) {
  if (n < 0 || static_cast<std::int64_t>(matrix.size()) != n * n) {
    throw ShapeError(error_message("symmetric_eigenvalues", "matrix",
                                   "n x n elements with n = " + std::to_string(n),
                                   std::to_string(matrix.size())));
  }
  double largest = 0;
  for (const double x : matrix) {
    MOH_CHECK(std::isfinite(x), "a matrix of finite elements");
    largest = std::max(largest, std::abs(x));
  }
  std::vector<double> values(static_cast<std::size_t>(n));
  if (largest == 0) return values;
  for (double& x : matrix) x /= largest;  // no square can overflow or vanish
  const Tridiagonal t = Reduction(std::move(matrix), n).run();
  const double bound = bound_of(t);
  parallel_for(n, grain(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[static_cast<std::size_t>(i)] = largest * bisect(t, n - 1 - i, bound);
  });
  return values;
}

}  // namespace moh
