#include <catch2/catch.hpp>

#include "tests/models/layers/straight_through_checks.h"

TEST_CASE("models: straight-through gradients of a whole layer are those of plain loops") {
  moh::test::check_straight_through(moh::DType::kFloat64, 1e-7);
  moh::test::check_straight_through(moh::DType::kFloat32, 1e-5);
}
