#include "ops/moh/add_expert.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(add_expert) {
  OpCases cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{0, 3}, Shape{2, 5, 7}, Shape{3, 40, 33}}) {
    for (const bool first : {true, false}) {
      const std::int64_t width = shape[-1], rows = shape.numel() / width;
      cases.push_back(
          {.name = to_string(shape) + (first ? " alone" : ""),
           .inputs = {first ? Tensor() : normal(shape), normal(shape, 2), uniform({rows, 3}, 0.1, 1, 3)},
           .run = [](const Inputs& in) { return Outputs{add_expert(in[0], in[1], in[2], 1)}; },
           .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
             const Tensor y = empty(shape, DType::kFloat64);
             for (std::int64_t i = 0; i < y.numel(); ++i)
               y.data<double>()[i] = (first ? 0.0 : in[0].data<double>()[i]) +
                                     in[2].data<double>()[i / width * 3 + 1] * in[1].data<double>()[i];
             return {y};
           }});
    }
  }
  return cases;
}

TEST_CASE("ops: add_expert does not read rows whose gate is 0") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Variable sum(tensor_of<double>({2, 1}, {1, 2}), true),
      output(tensor_of<double>({2, 1}, {nan, 3}), true);
  const Variable gates(tensor_of<double>({2, 2}, {1, 0, 0.5, 0.5}), true);
  const Variable y = add_expert(sum, output, gates, 1);
  CHECK(y.value().data<double>()[0] == 1);
  CHECK(y.value().data<double>()[1] == 3.5);
  y.backward(full({2, 1}, 1, DType::kFloat64));
  CHECK(output.grad().data<double>()[0] == 0);
  CHECK(gates.grad().data<double>()[1] == 0);
  CHECK(gates.grad().data<double>()[3] == 3);
}

TEST_CASE("ops: add_expert refuses what does not fit") {
  const Variable x(normal({2, 3, 4})), gates(normal({6, 2})), none;
  CHECK_THROWS_WITH(add_expert(none, x, Variable(normal({5, 2})), 0),
                    "add_expert: gates: expected shape [6, 2] (rows of output), found [5, 2]");
  CHECK_THROWS_AS(add_expert(Variable(normal({6, 4})), x, gates, 0), ShapeError);
  CHECK_THROWS_AS(add_expert(none, x, gates, 2), ValueError);
}
