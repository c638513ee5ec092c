#include "ops/shape/reshape.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "ops/norm/rms_norm.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(reshape) {
  return {{.name = "between two norms",
           .inputs = {normal({6, 4}), uniform({4}, 0.5, 1.5), uniform({8}, 0.5, 1.5)},
           .run =
               [](const Inputs& in) {
                 return Outputs{rms_norm(reshape(rms_norm(in[0], in[1], 1e-5), {-1, 8}), in[2], 1e-5)};
               },
           .reference = {}}};
}

TEST_CASE("ops: reshape infers one extent and refuses what does not divide") {
  const Variable x(normal({2, 6}));
  CHECK(reshape(x, {3, -1}).shape() == Shape{3, 4});
  CHECK(reshape(x, {12}).value().raw() == x.value().raw());
  CHECK_THROWS_WITH(reshape(x, {5, -1}), "reshape: extent -1: expected a divisor of 12 elements, found 5");
  CHECK_THROWS_AS(reshape(x, {5, 2}), ShapeError);
}
