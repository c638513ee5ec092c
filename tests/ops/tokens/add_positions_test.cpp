#include "ops/tokens/add_positions.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(add_positions) {
  OpCases cases;
  for (const Shape& shape :
       {Shape{1, 1, 1}, Shape{0, 3, 4}, Shape{2, 0, 4}, Shape{3, 5, 7}, Shape{2, 16, 65}}) {
    for (const bool with_token : {false, true}) {
      const std::int64_t width = shape[2], tokens = shape[1] + (with_token ? 1 : 0);
      cases.push_back({.name = to_string(shape) + (with_token ? " and a token" : ""),
                       .inputs = {normal(shape), with_token ? normal({1, 1, width}, 2) : Tensor(),
                                  normal({1, tokens, width}, 3)},
                       .run = [](const Inputs& in) { return Outputs{add_positions(in[0], in[1], in[2])}; },
                       .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                         const Tensor y = empty({shape[0], tokens, width}, DType::kFloat64);
                         for (std::int64_t i = 0; i < y.numel(); ++i) {
                           const std::int64_t c = i % width, t = i / width % tokens, b = i / width / tokens;
                           const std::int64_t of_image = t - (with_token ? 1 : 0);
                           y.data<double>()[i] =
                               in[2].data<double>()[t * width + c] +
                               (of_image < 0 ? in[1].data<double>()[c]
                                             : in[0].data<double>()[(b * shape[1] + of_image) * width + c]);
                         }
                         return {y};
                       }});
    }
  }
  return cases;
}

OP_CASES(take_token) {
  OpCases cases;
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{0, 3, 4}, Shape{3, 5, 7}}) {
    for (const std::int64_t index : {std::int64_t{0}, shape[1] - 1}) {
      cases.push_back({.name = to_string(shape) + " token " + std::to_string(index),
                       .inputs = {normal(shape)},
                       .run = [=](const Inputs& in) { return Outputs{take_token(in[0], index)}; },
                       .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                         const Tensor y = empty({shape[0], shape[2]}, DType::kFloat64);
                         for (std::int64_t i = 0; i < y.numel(); ++i) {
                           const std::int64_t c = i % shape[2], b = i / shape[2];
                           y.data<double>()[i] = in[0].data<double>()[(b * shape[1] + index) * shape[2] + c];
                         }
                         return {y};
                       }});
    }
  }
  return cases;
}

TEST_CASE("ops: add_positions and take_token refuse what does not fit") {
  const Variable x(normal({2, 3, 4})), token(normal({1, 1, 4})), none;
  CHECK_THROWS_WITH(
      add_positions(x, token, Variable(normal({1, 3, 4}))),
      "add_positions: positions: expected shape [1, 4, 4] (tokens of an image), found [1, 3, 4]");
  CHECK_THROWS_AS(add_positions(x, Variable(normal({1, 4})), Variable(normal({1, 4, 4}))), ShapeError);
  CHECK_THROWS_AS(add_positions(x, none, none), ValueError);
  CHECK_THROWS_AS(add_positions(x, none, Variable(normal({1, 3, 4}).to(DType::kFloat32))), DTypeError);
  CHECK_THROWS_WITH(take_token(x, 3), "take_token: index: expected 0 to 2, found 3");
  CHECK_THROWS_AS(take_token(x, -1), ShapeError);
}
