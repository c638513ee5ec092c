#include "ops/shape/repeat_heads.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(repeat_heads) {
  struct Sizes {
    Shape x;
    std::int64_t first, times;
  };
  OpCases cases;
  for (const Sizes& sizes :
       {Sizes{{1, 1, 1, 1}, 0, 1}, Sizes{{2, 3, 4, 5}, 2, 3}, Sizes{{2, 3, 2, 24}, 0, 6},
        Sizes{{0, 3, 2, 4}, 1, 2}, Sizes{{3, 70, 5, 9}, 3, 3}, Sizes{{1, 2, 3, 2}, 3, 4}}) {
    const Shape shape = sizes.x;
    const std::int64_t first = sizes.first, times = sizes.times;
    cases.push_back({.name = to_string(shape) + " from " + std::to_string(first),
                     .inputs = {normal(shape)},
                     .run = [=](const Inputs& in) { return Outputs{repeat_heads(in[0], first, times)}; },
                     .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const std::int64_t heads = first + (shape[2] - first) * times, d = shape[3];
                       const Tensor y = empty({shape[0], shape[1], heads, d}, DType::kFloat64);
                       for (std::int64_t i = 0; i < y.numel(); ++i) {
                         const std::int64_t h = i / d % heads, token = i / d / heads;
                         const std::int64_t from = h < first ? h : first + (h - first) / times;
                         y.data<double>()[i] = in[0].data<double>()[(token * shape[2] + from) * d + i % d];
                       }
                       return {y};
                     }});
  }
  return cases;
}

TEST_CASE("ops: repeat_heads refuses what does not fit") {
  const Variable x(normal({1, 2, 3, 4}));
  CHECK_THROWS_AS(repeat_heads(Variable(normal({2, 3, 4})), 0, 1), ShapeError);
  CHECK_THROWS_AS(repeat_heads(x, 4, 1), ValueError);
  CHECK_THROWS_AS(repeat_heads(x, 0, 0), ValueError);
}
