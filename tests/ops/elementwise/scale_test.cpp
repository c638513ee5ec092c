#include "ops/elementwise/scale.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(scale) {
  OpCases cases;
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{1}, Shape{17}, Shape{3, 5, 2}}) {
    for (const double factor : {-0.3, 0.0, 1.0}) {
      cases.push_back({.name = to_string(shape) + " times " + std::to_string(factor),
                       .inputs = {normal(shape)},
                       .run = [=](const Inputs& in) { return Outputs{scale(in[0], factor)}; },
                       .reference =
                           [=](const std::vector<Tensor>& in) {
                             Tensor y = empty_like(in[0]);
                             for (std::int64_t i = 0; i < y.numel(); ++i) {
                               y.data<double>()[i] = in[0].data<double>()[i] * factor;
                             }
                             return std::vector<Tensor>{y};
                           }});
    }
  }
  return cases;
}

TEST_CASE("ops: scale refuses what does not fit") {
  CHECK_THROWS_WITH(scale(Variable(normal({3})), NAN), "scale: factor: expected a finite number, found nan");
  CHECK_THROWS_AS(scale(Variable(normal({3})), INFINITY), ValueError);
  CHECK_THROWS_AS(scale(Variable(zeros({3}, DType::kInt32)), 2.0), DTypeError);
  CHECK_THROWS_AS(scale(Variable(), 2.0), ValueError);
}
