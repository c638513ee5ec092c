#include "core/shape.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "core/error.h"

using namespace moh;

TEST_CASE("shape: extents, rank, element count and text") {
  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape.numel() == 24);
  CHECK(shape[0] == 2);
  CHECK(shape[-1] == 4);
  CHECK(shape[-3] == 2);
  CHECK(to_string(shape) == "[2, 3, 4]");
  CHECK(shape == Shape{2, 3, 4});
  CHECK_FALSE(shape == Shape{2, 3});
  CHECK_FALSE(shape == Shape{2, 4, 3});
}

TEST_CASE("shape: a scalar has rank 0 and one element") {
  const Shape scalar;
  CHECK(scalar.rank() == 0);
  CHECK(scalar.numel() == 1);
  CHECK(to_string(scalar) == "[]");
  CHECK_THROWS_AS(scalar[0], ShapeError);
}

TEST_CASE("shape: an axis out of range is refused") {
  const Shape shape{2, 3};
  CHECK_THROWS_WITH(shape[2], "shape [2, 3]: axis: expected below 2, found 2");
  CHECK_THROWS_AS(shape[-3], ShapeError);
}

TEST_CASE("shape: negative extents, too many axes and overflow are refused") {
  CHECK_THROWS_WITH((Shape{2, -1}), "shape: extent: expected 0 or more, found -1");
  CHECK_THROWS_WITH(Shape(std::vector<std::int64_t>(7, 1)), "shape: rank: expected at most 6, found 7");
  constexpr std::int64_t kBig = std::int64_t{1} << 32;
  CHECK_THROWS_AS((Shape{kBig, kBig}), ShapeError);
  CHECK_THROWS_WITH((Shape{kBig, kBig}), Catch::Contains("[4294967296, 4294967296]"));
  CHECK_THROWS_AS((Shape{kBig, kBig, kBig, kBig}), ShapeError);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  CHECK(Shape{kMax}.numel() == kMax);
  CHECK_THROWS_AS((Shape{kMax, 2}), ShapeError);
}

TEST_CASE("shape: a zero extent empties any shape") {
  constexpr std::int64_t kBig = std::int64_t{1} << 32;
  CHECK(Shape{0}.numel() == 0);
  CHECK(Shape{3, 0, 2}.numel() == 0);
  CHECK(Shape{kBig, kBig, 0}.numel() == 0);
  CHECK(Shape{0, kBig, kBig}.numel() == 0);
}
