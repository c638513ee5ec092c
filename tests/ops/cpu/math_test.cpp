#include "ops/cpu/math.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

using namespace moh;

namespace {

/// Calls fn(x) for about 10^4 floats per unit from `low` to `high`.
template <class Fn>
void sweep(float low, float high, Fn&& fn) {
  constexpr double kStep = 1.0000371e-4;
  const auto steps = static_cast<std::int64_t>((high - low) / kStep);
  for (std::int64_t i = 0; i <= steps; ++i) fn(static_cast<float>(low + kStep * static_cast<double>(i)));
}

constexpr float kInf = std::numeric_limits<float>::infinity(),
                kQuietNan = std::numeric_limits<float>::quiet_NaN();

float exp_of(float x) {
  return exp_of_negative(splat(x))[0];
}

}  // namespace

TEST_CASE("ops: math: exp of negative numbers is right to 1.3e-7") {
  double worst = 0.0;
  sweep(-87.3F, 0.0F, [&](float x) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp_of(x) - exact) / exact);
  });
  CHECK(worst < 1.3e-7);
}

TEST_CASE("ops: math: exp at the ends of its range") {
  CHECK(exp_of(0.0F) == 1.0F);
  CHECK(exp_of(-0.0F) == 1.0F);
  CHECK(exp_of(-88.0F) == 0.0F);
  CHECK(exp_of(-1e30F) == 0.0F);
  CHECK(exp_of(-kInf) == 0.0F);
  CHECK(std::isnan(exp_of(kQuietNan)));
  CHECK(std::isnan(exp_of(-kQuietNan)));
  double worst = 0.0;  // where the results are subnormal or 0
  sweep(-88.5F, -87.3F,
        [&](float x) { worst = std::max(worst, std::abs(exp_of(x) - std::exp(static_cast<double>(x)))); });
  CHECK(worst < 1e-38);
}

TEST_CASE("ops: math: sigmoid and its complement keep their relative precision in both tails") {
  double worst = 0.0;
  sweep(-87.0F, 87.0F, [&](float x) {
    const Sigmoid<float> s = sigmoid_of(splat(x));
    const double value = 1.0 / (1.0 + std::exp(-static_cast<double>(x)));
    const double rest = 1.0 / (1.0 + std::exp(static_cast<double>(x)));
    worst = std::max({worst, std::abs(s.value[0] - value) / value, std::abs(s.rest[0] - rest) / rest});
  });
  CHECK(worst <= 3e-7);
  CHECK(sigmoid_of(splat(kInf)).value[0] == 1.0F);
  CHECK(sigmoid_of(splat(-kInf)).value[0] == 0.0F);
  CHECK(sigmoid_of(splat(-kInf)).rest[0] == 1.0F);
  CHECK(std::isnan(sigmoid_of(splat(kQuietNan)).value[0]));
}

TEST_CASE("ops: math: the normal distribution") {
  double worst = 0.0;
  sweep(-13.0F, 13.0F, [&](float x) {
    const Normal<float> n = normal_of(splat(x));
    const Normal<double> exact = normal_of(splat(static_cast<double>(x)));
    // Rounding z^2 / 2 to a float is an error of up to z^2 / 2 units in the exponential.
    const double unit = 0x1p-24 * (8.0 + x * x);
    worst = std::max({worst, std::abs(n.cumulative[0] - exact.cumulative[0]) / (unit * exact.cumulative[0]),
                      std::abs(n.density[0] - exact.density[0]) / (unit * exact.density[0])});
  });
  CHECK(worst <= 1.0);
  CHECK(normal_of(splat(kInf)).cumulative[0] == 1.0F);
  CHECK(normal_of(splat(-kInf)).cumulative[0] == 0.0F);
  CHECK(normal_of(splat(kInf)).density[0] == 0.0F);
  CHECK(std::isnan(normal_of(splat(kQuietNan)).cumulative[0]));
}
