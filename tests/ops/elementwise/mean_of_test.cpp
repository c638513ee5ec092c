#include "ops/elementwise/mean_of.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(mean_of) {
  OpCases cases;
  for (const std::size_t count : {1U, 2U, 3U, 64U, 65U, 130U}) {
    std::vector<Tensor> scalars;
    for (std::size_t i = 0; i < count; ++i) scalars.push_back(normal({}, i + 1));
    cases.push_back({.name = std::to_string(count) + " scalars",
                     .inputs = scalars,
                     .run = [](const Inputs& in) { return Outputs{mean_of(in)}; },
                     .reference =
                         [](const std::vector<Tensor>& in) {
                           double sum = 0;
                           for (const Tensor& x : in) sum += x.item() / static_cast<double>(in.size());
                           return std::vector<Tensor>{full({}, sum, DType::kFloat64)};
                         }});
  }
  return cases;
}

TEST_CASE("ops: mean_of refuses what does not fit") {
  CHECK_THROWS_WITH(mean_of({}), "mean_of: scalars: expected one or more, found none");
  const std::vector<Variable> vector = {Variable(normal({3}))},
                              mixed = {Variable(normal({})), Variable(normal({}).to(DType::kFloat32))};
  CHECK_THROWS_AS(mean_of(vector), ShapeError);
  CHECK_THROWS_AS(mean_of(mixed), DTypeError);
}
