#include "ops/linalg/mix_rows.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(mix_rows) {
  struct Sizes {
    std::int64_t out, in, width;
  };
  OpCases cases;
  for (const Sizes& s : {Sizes{1, 1, 1}, {5, 3, 7}, {4, 9, 33}, {0, 2, 3}}) {
    const Tensor weights = normal({s.out, s.in}, 2);
    cases.push_back({.name = to_string(Shape{s.out, s.in, s.width}),
                     .inputs = {normal({s.in, s.width})},
                     .run =
                         [=](const Inputs& in) {
                           const Tensor own = weights.to(accumulate_dtype(in[0].dtype())).to(in[0].device());
                           return Outputs{mix_rows(own, in[0])};
                         },
                     .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const Tensor y = zeros({s.out, s.width}, DType::kFloat64);
                       for (std::int64_t i = 0; i < y.numel(); ++i) {
                         for (std::int64_t k = 0; k < s.in; ++k)
                           y.data<double>()[i] += weights.data<double>()[i / s.width * s.in + k] *
                                                  in[0].data<double>()[k * s.width + i % s.width];
                       }
                       return {y};
                     }});
  }
  return cases;
}

TEST_CASE("ops: mix_rows refuses what does not fit") {
  const Variable x(normal({3, 4}));
  CHECK_THROWS_WITH(mix_rows(normal({2, 4}), x),
                    "mix_rows: weights: expected shape [2, 3] (rows of x), found [2, 4]");
  CHECK_THROWS_AS(mix_rows(normal({2, 3}).to(DType::kFloat32), x), DTypeError);
  CHECK_THROWS_AS(mix_rows(normal({2, 3}), Variable(normal({3}))), ShapeError);
}
