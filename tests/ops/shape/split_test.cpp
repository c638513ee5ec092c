#include "ops/shape/split.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(split) {
  struct Sizes {
    Shape x;
    std::vector<std::int64_t> widths;
  };
  OpCases cases;
  for (const Sizes& sizes : {Sizes{{3, 4}, {4}}, Sizes{{3, 4}, {1, 3}}, Sizes{{2, 3, 9}, {4, 0, 5}},
                             Sizes{{0, 5}, {2, 3}}, Sizes{{140, 12}, {7, 2, 2, 1}}}) {
    cases.push_back(
        {.name = to_string(sizes.x) + " in " + std::to_string(sizes.widths.size()),
         .inputs = {normal(sizes.x)},
         .run = [=](const Inputs& in) { return split(in[0], sizes.widths); },
         .reference =
             [=](const std::vector<Tensor>& in) {
               std::vector<std::int64_t> extents(sizes.x.extents().begin(), sizes.x.extents().end());
               const std::int64_t all = extents.back();
               std::vector<Tensor> parts;
               std::int64_t begin = 0;
               for (const std::int64_t width : sizes.widths) {
                 extents.back() = width;
                 parts.push_back(empty(Shape(std::span<const std::int64_t>(extents)), DType::kFloat64));
                 for (std::int64_t i = 0; i < parts.back().numel(); ++i) {
                   parts.back().data<double>()[i] = in[0].data<double>()[i / width * all + begin + i % width];
                 }
                 begin += width;
               }
               return parts;
             }});
  }
  return cases;
}

OP_CASES(join) {
  OpCases cases;
  for (const std::vector<Shape>& shapes : {std::vector<Shape>{{3, 4}},
                                           {{3, 1}, {3, 3}},
                                           {{2, 3, 4}, {2, 3, 0}, {2, 3, 5}},
                                           {{0, 2}, {0, 3}},
                                           {{140, 7}, {140, 2}, {140, 2}, {140, 1}}}) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) inputs.push_back(normal(shape, inputs.size()));
    cases.push_back({.name = to_string(shapes[0]) + " and " + std::to_string(shapes.size() - 1),
                     .inputs = inputs,
                     .run = [](const Inputs& in) { return Outputs{join(in)}; },
                     .reference =
                         [](const std::vector<Tensor>& in) {
                           const std::int64_t rows = in[0].numel() / in[0].dim(-1);
                           std::vector<double> all;
                           for (std::int64_t row = 0; row < rows; ++row) {
                             for (const Tensor& part : in) {
                               const double* from = part.data<double>() + row * part.dim(-1);
                               all.insert(all.end(), from, from + part.dim(-1));
                             }
                           }
                           std::vector<std::int64_t> extents(in[0].shape().extents().begin(),
                                                             in[0].shape().extents().end());
                           extents.back() = 0;
                           for (const Tensor& part : in) extents.back() += part.dim(-1);
                           return std::vector<Tensor>{
                               tensor_of<double>(Shape(std::span<const std::int64_t>(extents)), all)};
                         }});
  }
  return cases;
}

TEST_CASE("ops: the gradient of split is zero where a part is not used") {
  const Variable x(normal({2, 3}).to(DType::kFloat32), true);
  split(x, {1, 2})[1].backward(full({2, 2}, 1.0, DType::kFloat32));
  CHECK(std::ranges::equal(x.grad().span<float>(), std::vector<float>{0, 1, 1, 0, 1, 1}));
}

TEST_CASE("ops: split refuses what does not fit") {
  const Variable x(normal({2, 5}));
  CHECK_THROWS_WITH(split(x, {2, 2}), "split: widths: expected 5 in all, the last axis of x, found 4");
  CHECK_THROWS_AS(split(x, {}), ValueError);
  CHECK_THROWS_AS(split(x, {1, 1, 1, 1, 1}), ValueError);
}

TEST_CASE("ops: join refuses what does not fit") {
  const Variable x(normal({2, 5}));
  CHECK_THROWS_AS(join({}), ValueError);
  CHECK_THROWS_AS(join({x, x, x, x, x}), ValueError);
  CHECK_THROWS_AS(join({x, Variable(normal({3, 5}))}), ShapeError);
  CHECK_THROWS_AS(join({x, Variable(normal({2, 5}).to(DType::kFloat32))}), DTypeError);
}
