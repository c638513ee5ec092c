#include "train/base/math/symmetric_eigenvalues.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tensor.h"
#include "ops/linalg/matmul.h"
#include "tests/support/message_of.h"

using namespace moh;

namespace {

std::vector<double> normal_numbers(std::int64_t count, std::uint64_t seed) {
  const Tensor x = empty({count}, DType::kFloat64);
  fill_normal(x, {seed, 1}, 0.0, 1.0);
  return {x.data<double>(), x.data<double>() + count};
}

/// Q diag(values) Q' with Q a product of random reflections.
std::vector<double> with_spectrum(const std::vector<double>& values, std::uint64_t seed) {
  const auto n = values.size();
  std::vector<double> a(n * n);
  for (std::size_t i = 0; i < n; ++i) a[i * n + i] = values[i];
  for (std::uint64_t r = 0; r < 3; ++r) {
    const std::vector<double> v = normal_numbers(static_cast<std::int64_t>(n), seed + r);
    double squares = 0;
    for (const double x : v) squares += x * x;
    // Both sides: A <- (1 - 2 v v' / v'v) A (1 - 2 v v' / v'v), one after the other.
    for (const bool left : {true, false}) {
      const auto at = [&](std::size_t i, std::size_t j) -> double& {
        return left ? a[i * n + j] : a[j * n + i];
      };
      for (std::size_t j = 0; j < n; ++j) {
        double along = 0;
        for (std::size_t i = 0; i < n; ++i) along += v[i] * at(i, j);
        for (std::size_t i = 0; i < n; ++i) at(i, j) -= 2 * along / squares * v[i];
      }
    }
  }
  return a;
}

void check_close(const std::vector<double>& found, std::vector<double> expected, double error) {
  std::ranges::sort(expected, std::greater<>());
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) <= error);
}

}  // namespace

TEST_CASE("analyze: eigenvalues of matrices that one can solve by hand") {
  CHECK(symmetric_eigenvalues({}, 0).empty());
  check_close(symmetric_eigenvalues({-3}, 1), {-3}, 1e-15);
  check_close(symmetric_eigenvalues({2, 1, 1, 2}, 2), {3, 1}, 1e-14);
  check_close(symmetric_eigenvalues({0, 1, 1, 0}, 2), {1, -1}, 1e-14);
  check_close(symmetric_eigenvalues({5, 0, 0, 0, -2, 0, 0, 0, 7}, 3), {7, 5, -2}, 1e-13);
  check_close(symmetric_eigenvalues({1, 1, 1, 1, 1, 1, 1, 1, 1}, 3), {3, 0, 0}, 1e-14);
  check_close(symmetric_eigenvalues(std::vector<double>(16), 4), {0, 0, 0, 0}, 0);
  // Only what is on and below the diagonal counts.
  check_close(symmetric_eigenvalues({2, 99, 1, 2}, 2), {3, 1}, 1e-14);
}

TEST_CASE("analyze: eigenvalues of the second difference") {
  constexpr std::int64_t n = 50;
  std::vector<double> a(n * n), expected;
  for (std::size_t i = 0; i < n; ++i) {
    a[i * n + i] = 2;
    if (i > 0) a[i * n + i - 1] = a[(i - 1) * n + i] = -1;
    expected.push_back(2 - 2 * std::cos(static_cast<double>(i + 1) * std::numbers::pi / (n + 1)));
  }
  check_close(symmetric_eigenvalues(a, n), expected, 1e-13);
}

TEST_CASE("analyze: eigenvalues of rotated known spectra, degenerate and of many magnitudes") {
  check_close(symmetric_eigenvalues(with_spectrum({4, 4, 4, 1, 1, 0, 0}, 1), 7), {4, 4, 4, 1, 1, 0, 0},
              1e-13);
  std::vector<double> wide;
  for (int i = 0; i < 40; ++i) wide.push_back(std::pow(10.0, -i / 4.0) * (i % 3 == 0 ? -1 : 1));
  check_close(symmetric_eigenvalues(with_spectrum(wide, 5), 40), wide, 1e-13);
  std::vector<double> many = normal_numbers(150, 9);  // more than one chunk of each loop
  check_close(symmetric_eigenvalues(with_spectrum(many, 7), 150), many, 1e-12);
}

TEST_CASE("analyze: eigenvalues scale with the matrix and do not depend on the number of threads") {
  const std::vector<double> values = normal_numbers(300, 3), a = with_spectrum(values, 11);
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<double> one = symmetric_eigenvalues(a, 300);
  set_num_threads(4);
  CHECK(symmetric_eigenvalues(a, 300) == one);
  set_num_threads(before);
  for (const double factor : {0x1p-900, 0x1p900}) {
    std::vector<double> scaled = a;
    for (double& x : scaled) x *= factor;
    const std::vector<double> found = symmetric_eigenvalues(scaled, 300);
    for (std::size_t i = 0; i < 300; ++i) CHECK(found[i] == one[i] * factor);
  }
}

TEST_CASE("analyze: eigenvalues of what is no square matrix of finite numbers") {
  CHECK(message_of<ShapeError>([] {
          symmetric_eigenvalues({1, 2, 3}, 2);
        }) == "symmetric_eigenvalues: matrix: expected n x n elements with n = 2, found 3");
  CHECK_THROWS_AS(symmetric_eigenvalues({std::numeric_limits<double>::quiet_NaN()}, 1), InternalError);
}
