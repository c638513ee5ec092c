#include "ops/moh/scale_heads.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> scale_heads_reference(const std::vector<Tensor>& in) {
  const std::int64_t heads = in[0].dim(-2), d = in[0].dim(-1);
  Tensor y = empty_like(in[0]);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.data<double>()[i] = in[0].data<double>()[i] * in[1].data<double>()[i / d % heads];
  return {y};
}

std::vector<Tensor> gradients(const std::vector<Tensor>& in, const std::vector<Tensor>& dy) {
  const std::int64_t heads = in[0].dim(-2), d = in[0].dim(-1);
  Tensor dscales = full({heads}, 0.0, DType::kFloat64);
  for (std::int64_t i = 0; i < in[0].numel(); ++i)
    dscales.data<double>()[i / d % heads] += dy[0].data<double>()[i] * in[0].data<double>()[i];
  return {scale_heads_reference({dy[0], in[1]})[0], dscales};
}

}  // namespace

OP_CASES(scale_heads) {
  OpCases cases;
  for (const Shape& shape : {Shape{0, 3, 4}, Shape{1, 1, 1}, Shape{5, 3, 7}, Shape{2, 35, 4, 16},
                             Shape{2, 1030, 2, 9}, Shape{3, 8}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape), normal({shape[-2]}, 2)},
                     .run = [](const Inputs& in) { return Outputs{scale_heads(in[0], in[1])}; },
                     .reference = scale_heads_reference});
    if (shape.numel() > 20000) {
      cases.back().gradients = gradients;
      cases.back().units = 32;  // 18,540 products of either sign add up to a half percent of their magnitudes
    }
  }
  return cases;
}

TEST_CASE("ops: scale_heads refuses what does not fit") {
  const Variable x(normal({2, 3, 5}));
  CHECK_THROWS_WITH(scale_heads(x, Variable(normal({5}))),
                    "scale_heads: scales: expected shape [3] (the heads of x), found [5]");
  CHECK_THROWS_AS(scale_heads(Variable(normal({5})), Variable(normal({5}))), ShapeError);
  CHECK_THROWS_AS(scale_heads(x, Variable(normal({3}).to(DType::kFloat32))), DTypeError);
}
