#include "ops/activation/relu.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(relu) {
  OpCases cases;
  for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{3, 7}, Shape{5, 4097}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape)},
                     .run = [](const Inputs& in) { return Outputs{relu(in[0])}; },
                     .reference = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const Tensor y = empty_like(in[0]);
                       for (std::int64_t i = 0; i < y.numel(); ++i)
                         y.data<double>()[i] = std::max(in[0].data<double>()[i], 0.0);
                       return {y};
                     }});
  }
  return cases;
}

TEST_CASE("ops: relu at 0, and of what is no number") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Variable x(tensor_of<double>({3}, {0.0, -0.0, nan}), true);
  const Variable y = relu(x);
  CHECK(y.value().data<double>()[0] == 0.0);
  CHECK(std::isnan(y.value().data<double>()[2]));
  y.backward(full({3}, 1.0, DType::kFloat64));
  CHECK(x.grad().data<double>()[0] == 0.0);
  CHECK(x.grad().data<double>()[1] == 0.0);
}

TEST_CASE("ops: relu refuses integers") {
  CHECK_THROWS_AS(relu(Variable(full({3}, 1, DType::kInt32))), DTypeError);
}
