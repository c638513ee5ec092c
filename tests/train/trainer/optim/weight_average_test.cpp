#include "train/trainer/optim/weight_average.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace moh {

TEST_CASE("optim: the decay of a moving average warms up to the one of the configuration") {
  const AverageDecay warm{.decay = 0.998, .warmup = true}, cold{.decay = 0.998};
  CHECK(warm.at(0) == 0.1);
  CHECK(warm.at(8) == 0.5);
  CHECK(warm.at(4000) < 0.998);
  CHECK(warm.at(5000) == 0.998);
  CHECK(cold.at(0) == 0.998);
  CHECK(AverageDecay{.decay = 0.05, .warmup = true}.at(0) == 0.05);
}

TEST_CASE("optim: how much of its first weights an average still holds") {
  const AverageDecay cold{.decay = 0.998};
  CHECK(cold.share_of_first(0) == 1);
  CHECK(cold.share_of_first(333) == Approx(0.513).epsilon(0.01));
  const AverageDecay warm{.decay = 0.998, .warmup = true};
  CHECK(warm.share_of_first(0) == 1);
  CHECK(warm.share_of_first(1) == 0.1);
  CHECK(warm.share_of_first(2) == Approx(0.1 * 2 / 11));
  CHECK(warm.share_of_first(100) < 1e-9);
  CHECK(warm.share_of_first(1'000'000'000) < 1e-9);
}

}  // namespace moh
