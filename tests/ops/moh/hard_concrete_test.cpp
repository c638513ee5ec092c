#include "ops/moh/hard_concrete.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace moh;

TEST_CASE("moh: hard-concrete masks have the probabilities and slopes of their equations") {
  for (const double log_alpha : {-4.0, -1.0, 0.0, 0.7, 3.0}) {
    constexpr int kDraws = 20000;
    int on = 0, whole = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double u = (i + 0.5) / kDraws;  // the quantiles themselves
      const auto mask = hard_concrete::sample(log_alpha, u);
      REQUIRE(mask.z >= 0);
      REQUIRE(mask.z <= 1);
      on += mask.z > 0;
      whole += mask.z == 1;
      constexpr double kStep = 1e-6;
      const double slope =
          (hard_concrete::sample(log_alpha + kStep, u).z - hard_concrete::sample(log_alpha - kStep, u).z) /
          (2 * kStep);
      const bool at_an_edge = (mask.z > 0 && mask.z < 1e-5) || (mask.z < 1 && mask.z > 1 - 1e-5) ||
                              (mask.slope == 0) != (slope == 0);
      if (!at_an_edge) REQUIRE(mask.slope == Approx(slope).epsilon(1e-5).margin(1e-8));
    }
    CHECK(hard_concrete::probability_on(log_alpha) == Approx(double(on) / kDraws).margin(1e-3));
    // By symmetry z = 1 is as likely as z = 0 is for -log_alpha.
    CHECK(1 - hard_concrete::probability_on(-log_alpha) == Approx(double(whole) / kDraws).margin(1e-3));
  }
}
