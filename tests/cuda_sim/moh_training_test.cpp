// Gates and their gradients on the simulated GPU: the checks of the CPU.

#include <catch2/catch.hpp>

#include "tests/models/layers/straight_through_checks.h"
#include "tests/ops/device_ways.h"
#include "tests/train/trainer/run/gate_training_checks.h"

using namespace moh;
using namespace moh::test;

TEST_CASE("sim: straight-through gradients of a whole layer are those of plain loops") {
  check_straight_through({DType::kFloat32, open_gpu()}, 1e-5);
}

TEST_CASE("sim: models with the paper's gates, and with gates of one stage, learn and use them") {
  check_training_with_gates(open_gpu());
}
