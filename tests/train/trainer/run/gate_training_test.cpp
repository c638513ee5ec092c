#include <catch2/catch.hpp>

#include "tests/train/trainer/run/gate_training_checks.h"

TEST_CASE("trainer: models with the paper's gates, and with gates of one stage, learn and use them") {
  moh::test::check_training_with_gates(moh::kCpu);
}
