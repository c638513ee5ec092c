#include "ops/softmax/softmax.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> softmax_reference(const std::vector<Tensor>& in) {
  const std::int64_t width = in[0].dim(-1);
  Tensor y = empty_like(in[0]);
  for (std::int64_t first = 0; first < y.numel(); first += width) {
    const double* x = in[0].data<double>() + first;
    double sum = 0.0;
    for (std::int64_t j = 0; j < width; ++j) sum += std::exp(x[j]);
    for (std::int64_t j = 0; j < width; ++j) y.data<double>()[first + j] = std::exp(x[j]) / sum;
  }
  return {y};
}

}  // namespace

OP_CASES(softmax) {
  OpCases cases;
  for (const Shape& shape :
       {Shape{1}, Shape{5}, Shape{0, 4}, Shape{3, 0}, Shape{2, 3, 17}, Shape{70, 65}, Shape{2, 2049}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {uniform(shape, -4.0, 4.0)},
                     .run = [](const Inputs& in) { return Outputs{softmax(in[0])}; },
                     .reference = softmax_reference});
  }
  return cases;
}

TEST_CASE("ops: softmax is right for huge and infinite inputs") {
  const Tensor x = tensor_of<float>({3, 3}, {3e38F, -3e38F, 0, 1e4F, 1e4F, -INFINITY, NAN, 0, 0});
  const Variable y = softmax(Variable(x));
  const float* row = y.value().data<float>();
  CHECK(row[0] == 1.0F);
  CHECK(row[1] == 0.0F);
  CHECK(row[3] == 0.5F);
  CHECK(row[5] == 0.0F);
  for (int j = 6; j < 9; ++j) CHECK(std::isnan(row[j]));
}

TEST_CASE("ops: softmax refuses what does not fit") {
  CHECK_THROWS_WITH(softmax(Variable(normal({}))), "softmax: x: expected rank 1 or more, found []");
  CHECK_THROWS_AS(softmax(Variable(zeros({2}, DType::kInt32))), DTypeError);
  CHECK_THROWS_AS(softmax(Variable()), ValueError);
}
