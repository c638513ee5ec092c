#include "ops/activation/swiglu.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> swiglu_reference(const std::vector<Tensor>& in) {
  const std::int64_t width = in[0].dim(-1) / 2;
  std::vector<std::int64_t> extents(in[0].shape().extents().begin(), in[0].shape().extents().end());
  extents.back() = width;
  const Tensor y = empty(Shape(std::span<const std::int64_t>(extents)), DType::kFloat64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double* gate = in[0].data<double>() + i / width * 2 * width + i % width;
    y.data<double>()[i] = *gate / (1.0 + std::exp(-*gate)) * gate[width];
  }
  return {y};
}

}  // namespace

OP_CASES(swiglu) {
  OpCases cases;
  for (const Shape& shape :
       {Shape{0, 4}, Shape{2}, Shape{3, 0}, Shape{3, 14}, Shape{2, 3, 66}, Shape{5, 32}, Shape{70, 48}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {uniform(shape, -6.0, 6.0)},
                     .run = [](const Inputs& in) { return Outputs{swiglu(in[0])}; },
                     .reference = swiglu_reference});
  }
  return cases;
}

TEST_CASE("ops: swiglu is right for large gates") {
  const Variable x(tensor_of<float>({8}, {-1000.0F, -80.0F, 80.0F, 1000.0F, 2.0F, 2.0F, 2.0F, 2.0F}), true);
  const Variable y = swiglu(x);
  y.backward(full({4}, 1.0, DType::kFloat32));
  CHECK(y.value().data<float>()[0] == 0.0F);
  CHECK(y.value().data<float>()[1] == Approx(-160.0 * std::exp(-80.0)).epsilon(1e-6));
  CHECK(y.value().data<float>()[2] == 160.0F);
  CHECK(y.value().data<float>()[3] == 2000.0F);
  CHECK(x.grad().data<float>()[0] == 0.0F);
  CHECK(x.grad().data<float>()[3] == 2.0F);
  CHECK(x.grad().data<float>()[7] == 1000.0F);
}

TEST_CASE("ops: swiglu refuses what does not fit") {
  CHECK_THROWS_WITH(swiglu(Variable(normal({3, 7}))),
                    "swiglu: gate_up: expected an even last axis, found [3, 7]");
  CHECK_THROWS_AS(swiglu(Variable(normal({}))), ShapeError);
  CHECK_THROWS_AS(swiglu(Variable(zeros({2}, DType::kUInt8))), DTypeError);
  CHECK_THROWS_AS(swiglu(Variable()), ValueError);
}
