// Vector helpers, here with the vectors of the compiler's default target; the tests of the ops that use them
// run with every instruction set.

#include "ops/cpu/simd.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/tile.h"

using namespace moh;

namespace {

template <class F>
F exp2_of(F x) {
  return exp2_lanes<F>(splat<F>(x))[0];
}

/// Largest relative error of 2^x for `count` numbers from `low` to `high`.
template <class F>
double worst_exp2_error(double low, double high, int count) {
  double worst = 0.0;
  for (int i = 0; i <= count; ++i) {
    const F x = static_cast<F>(low + (high - low) * i / count);
    const long double exact = std::exp2(static_cast<long double>(x));
    worst = std::max(worst, static_cast<double>(std::abs((exp2_of<F>(x) - exact) / exact)));
  }
  return worst;
}

}  // namespace

TEST_CASE("ops: simd: 2^x is right to 1.3e-7 in float and 4e-16 in double") {
  CHECK(worst_exp2_error<float>(-125.9, 20.0, 200000) < 1.3e-7);
  CHECK(worst_exp2_error<double>(-1021.9, 20.0, 200000) < 4e-16);
}

TEMPLATE_TEST_CASE("ops: simd: 2^x at the ends of its range", "", float, double) {
  constexpr TestType kInfinity = std::numeric_limits<TestType>::infinity();
  const TestType bias = std::numeric_limits<TestType>::max_exponent - 1;
  CHECK(exp2_of<TestType>(0) == 1);
  CHECK(exp2_of<TestType>(TestType(-0.0)) == 1);
  CHECK(exp2_of<TestType>(10) == 1024);
  CHECK(exp2_of<TestType>(1 - bias) == std::numeric_limits<TestType>::min());
  CHECK(exp2_of<TestType>(-bias) == 0);
  CHECK(exp2_of<TestType>(TestType(-1e30)) == 0);
  CHECK(exp2_of<TestType>(-kInfinity) == 0);
  CHECK(std::isnan(exp2_of<TestType>(std::numeric_limits<TestType>::quiet_NaN())));
}

TEST_CASE("ops: simd: bfloat16 is stored as its constructor rounds") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float x : {0.0F, -0.0F, 1.0F, 1.00390625F, 1.01171875F, -3.14159F, 1e-40F, 3.4e38F, inf, -inf, nan}) {
    bfloat16 stored[kLanes<float>];
    store_as<bfloat16>(stored, splat<float>(x));
    CHECK(stored[0].bits == bfloat16(x).bits);
    const float back = load_as<bfloat16>(stored)[kLanes<float> - 1];
    CHECK(std::bit_cast<std::uint32_t>(back) == std::bit_cast<std::uint32_t>(float(bfloat16(x))));
  }
}

TEMPLATE_TEST_CASE("ops: simd: the larger and the smaller, the second where either is NaN", "", float,
                   double) {
  constexpr TestType kNan = std::numeric_limits<TestType>::quiet_NaN();
  const auto larger_of = [](TestType a, TestType b) { return larger<TestType>(splat(a), splat(b))[0]; };
  const auto smaller_of = [](TestType a, TestType b) { return smaller<TestType>(splat(a), splat(b))[0]; };
  CHECK(larger_of(1, 2) == 2);
  CHECK(larger_of(2, 1) == 2);
  CHECK(smaller_of(1, 2) == 1);
  CHECK(smaller_of(2, 1) == 1);
  CHECK(larger_of(kNan, 1) == 1);
  CHECK(smaller_of(kNan, 1) == 1);
  CHECK(std::isnan(larger_of(1, kNan)));
  CHECK(std::isnan(smaller_of(1, kNan)));
}

TEMPLATE_TEST_CASE("ops: simd: parts of vectors, sums and maxima", "", float, double) {
  constexpr int kN = kLanes<TestType>, kSquares = (kN - 1) * kN * (2 * kN - 1) / 6;
  std::vector<TestType> values(kN);
  for (int i = 0; i < kN; ++i) values[i] = TestType(i * i - 3);
  const Vec<TestType> v = load(values.data());
  CHECK(sum_lanes<TestType>(v) == static_cast<TestType>(kSquares - 3 * kN));
  CHECK(max_lane<TestType>(v) == values.back());
  CHECK(max_lane<TestType>(-v) == TestType(3));
  for (int count = 0; count < kN; ++count) {
    const Vec<TestType> first = load_first<TestType>(values.data(), count);
    std::vector<TestType> stored(kN, TestType(-1));
    store_first<TestType>(stored.data(), v, count);
    for (int i = 0; i < kN; ++i) {
      CHECK(first[i] == (i < count ? values[i] : TestType(0)));
      CHECK(stored[i] == (i < count ? values[i] : TestType(-1)));
    }
  }
}

TEMPLATE_TEST_CASE("ops: simd: a square is transposed", "", float, double) {
  constexpr int kN = kLanes<TestType>;
  Vec<TestType> rows[kN];
  for (int i = 0; i < kN; ++i) {
    for (int j = 0; j < kN; ++j) rows[i][j] = TestType(100 * i + j);
  }
  transpose_square<TestType>(rows);
  for (int i = 0; i < kN; ++i) {
    for (int j = 0; j < kN; ++j) CHECK(rows[i][j] == TestType(100 * j + i));
  }
}

namespace {

/// c (+)= a b for every width of c up to a few tiles, against plain loops in integers that floats hold
/// exactly.
template <class F, int kRows, bool kAccumulate>
void check_products(bool transposed) {
  constexpr std::int64_t kDepth = 7;
  for (int vecs = 0; vecs <= 2 * kTileVecs + 1; ++vecs) {
    const std::int64_t width = vecs * kLanes<F>, c_row = width + 3;
    std::vector<F> a(kRows * kDepth), b(kDepth * std::max<std::int64_t>(width, 1)), c(kRows * c_row, F(5));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = F(static_cast<int>(i * 7 % 11) - 5);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = F(static_cast<int>(i * 5 % 13) - 6);
    const LeftFactor<F> left =
        transposed ? LeftFactor<F>{a.data(), 1, kRows} : LeftFactor<F>{a.data(), kDepth, 1};
    multiply_rows<F, kRows, kAccumulate>(left, b.data(), width, kDepth, {c.data(), c_row}, vecs);
    bool right = true;
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < c_row; ++j) {
        F expected = kAccumulate || j >= width ? F(5) : F(0);
        for (std::int64_t k = 0; k < kDepth && j < width; ++k) {
          expected += a[i * left.row + k * left.depth] * b[k * width + j];
        }
        right = right && c[i * c_row + j] == expected;
      }
    }
    INFO(vecs << " vectors");
    CHECK(right);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("ops: tile: products of every width", "", float, double) {
  for (bool transposed : {false, true}) {
    check_products<TestType, kTileRows, false>(transposed);
    check_products<TestType, kTileRows, true>(transposed);
    check_products<TestType, 4, true>(transposed);
  }
}

TEMPLATE_TEST_CASE("ops: simd: the logarithm to base 2", "", float, double) {
  const double tolerance = sizeof(TestType) == 8 ? 3e-16 : 2e-7;
  double worst = 0;
  for (int i = 0; i <= 100000; ++i) {
    const auto x = static_cast<TestType>(std::exp2(-20 + i * 60.0 / 100000));
    const double exact = std::log2(static_cast<double>(x)),
                 found = double{log2_lanes<TestType>(splat<TestType>(x))[0]};
    worst = std::max(worst, std::abs(found - exact) / std::max(1.0, std::abs(exact)));
  }
  CHECK(worst < tolerance);
  CHECK(log2_lanes<TestType>(splat<TestType>(1))[0] == 0);
  CHECK(log2_lanes<TestType>(splat<TestType>(1024))[0] == 10);
}

TEMPLATE_TEST_CASE("ops: simd: sums of several vectors at once", "", float, double) {
  constexpr int kN = kLanes<TestType>, kFewer = kN - 1, kSquares = (kN - 1) * kN * (2 * kN - 1) / 6;
  Vec<TestType> rows[kN], fewer[kFewer];
  for (int i = 0; i < kN; ++i) {
    for (int lane = 0; lane < kN; ++lane) rows[i][lane] = TestType(i * 100 + lane * lane);
    if (i < kFewer) fewer[i] = rows[i];
  }
  const Vec<TestType> sums = sum_each<TestType, kN>(rows), of_fewer = sum_each<TestType, kFewer>(fewer);
  for (int i = 0; i < kN; ++i) {
    const auto expected = static_cast<TestType>(i * 100 * kN + kSquares);
    CHECK(sums[i] == expected);
    if (i < kFewer) CHECK(of_fewer[i] == expected);
  }
}
