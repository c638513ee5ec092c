#include "ops/cpu/math.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

using namespace moh;

namespace {

/// Calls fn(x) for about 10^4 floats per unit from `low` to `high`.
template <class Fn>
void sweep(float low, float high, Fn&& fn) {
  for (double x = low; x <= high; x += 1.0000371e-4) fn(static_cast<float>(x));
}

constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("ops: math: exp of negative numbers is right to 1.3e-7") {
  double worst = 0.0;
  sweep(-87.3F, 0.0F, [&](float x) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp_of_negative(x) - exact) / exact);
  });
  CHECK(worst < 1.3e-7);
}

TEST_CASE("ops: math: exp at the ends of its range") {
  CHECK(exp_of_negative(0.0F) == 1.0F);
  CHECK(exp_of_negative(-0.0F) == 1.0F);
  CHECK(exp_of_negative(-88.0F) == 0.0F);
  CHECK(exp_of_negative(-1e30F) == 0.0F);
  CHECK(exp_of_negative(-kInf) == 0.0F);
  CHECK(std::isnan(exp_of_negative(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(exp_of_negative(-std::numeric_limits<float>::quiet_NaN())));
  double worst = 0.0;  // where the results are subnormal or 0
  sweep(-88.5F, -87.3F, [&](float x) {
    worst = std::max(worst, std::abs(exp_of_negative(x) - std::exp(static_cast<double>(x))));
  });
  CHECK(worst < 1e-38);
}

TEST_CASE("ops: math: sigmoid and its complement keep their relative precision in both tails") {
  double worst = 0.0;
  sweep(-87.0F, 87.0F, [&](float x) {
    const Sigmoid<float> s = sigmoid_of(x);
    const double value = 1.0 / (1.0 + std::exp(-static_cast<double>(x)));
    const double rest = 1.0 / (1.0 + std::exp(static_cast<double>(x)));
    worst = std::max({worst, std::abs(s.value - value) / value, std::abs(s.rest - rest) / rest});
  });
  CHECK(worst <= 3e-7);
  CHECK(sigmoid_of(kInf).value == 1.0F);
  CHECK(sigmoid_of(-kInf).value == 0.0F);
  CHECK(std::isnan(sigmoid_of(std::numeric_limits<float>::quiet_NaN()).value));
}

TEST_CASE("ops: math: the normal distribution") {
  double worst = 0.0;
  sweep(-13.0F, 13.0F, [&](float x) {
    const Normal<float> n = normal_of(x);
    const Normal<double> exact = normal_of(static_cast<double>(x));
    // Rounding z^2 / 2 to a float is an error of up to z^2 / 2 units in the exponential.
    const double unit = 0x1p-24 * (8.0 + x * x);
    worst = std::max({worst, std::abs(n.cumulative - exact.cumulative) / (unit * exact.cumulative),
                      std::abs(n.density - exact.density) / (unit * exact.density)});
  });
  CHECK(worst <= 1.0);
  CHECK(normal_of(kInf).cumulative == 1.0F);
  CHECK(normal_of(-kInf).cumulative == 0.0F);
  CHECK(normal_of(kInf).density == 0.0F);
  CHECK(std::isnan(normal_of(std::numeric_limits<float>::quiet_NaN()).cumulative));
}
