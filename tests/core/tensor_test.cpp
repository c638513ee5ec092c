#include "core/tensor.h"

#include <catch2/catch.hpp>

using namespace moh;

TEST_CASE("core: a slice of the leading dimension is a view") {
  Tensor x = tensor_of<float>({3, 2}, {0, 1, 2, 3, 4, 5});
  Tensor row = x.select(1);
  REQUIRE(row.shape() == Shape{2});
  row.fill(7);
  CHECK(x.data<float>()[2] == 7);
  CHECK(x.data<float>()[3] == 7);
  CHECK(x.data<float>()[4] == 4);
  CHECK(x.slice(3, 3).numel() == 0);
  CHECK_THROWS_AS(x.slice(2, 4), ShapeError);
}
