#include "ops/activation/swiglu.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> reference(const std::vector<Tensor>& in) {
  Tensor y = empty_like(in[0]);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double gate = in[0].data<double>()[i];
    y.data<double>()[i] = gate / (1.0 + std::exp(-gate)) * in[1].data<double>()[i];
  }
  return {y};
}

}  // namespace

OP_CASES(swiglu) {
  OpCases cases;
  for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{1}, Shape{3, 7}, Shape{2, 3, 33}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {uniform(shape, -6.0, 6.0), normal(shape, 2)},
                     .run = [](const Inputs& in) { return Outputs{swiglu(in[0], in[1])}; },
                     .reference = reference});
  }
  return cases;
}

TEST_CASE("ops: swiglu is right for large gates") {
  const Variable gate(tensor_of<float>({4}, {-1000.0F, -80.0F, 80.0F, 1000.0F}), true);
  const Variable up(tensor_of<float>({4}, {2.0F, 2.0F, 2.0F, 2.0F}), true);
  const Variable y = swiglu(gate, up);
  y.backward(full({4}, 1.0, DType::kFloat32));
  CHECK(y.value().data<float>()[0] == 0.0F);
  CHECK(y.value().data<float>()[1] == Approx(-160.0 * std::exp(-80.0)).epsilon(1e-6));
  CHECK(y.value().data<float>()[2] == 160.0F);
  CHECK(y.value().data<float>()[3] == 2000.0F);
  CHECK(gate.grad().data<float>()[0] == 0.0F);
  CHECK(gate.grad().data<float>()[3] == 2.0F);
  CHECK(up.grad().data<float>()[3] == 1000.0F);
}

TEST_CASE("ops: swiglu refuses what does not fit") {
  const Variable gate(normal({3, 7}));
  CHECK_THROWS_WITH(swiglu(gate, Variable(normal({3, 8}))),
                    "swiglu: up: expected shape [3, 7] (as gate), found [3, 8]");
  CHECK_THROWS_AS(swiglu(gate, Variable(normal({3, 7}).to(DType::kBFloat16))), DTypeError);
  CHECK_THROWS_AS(swiglu(Variable(zeros({1}, DType::kUInt8)), gate), DTypeError);
  CHECK_THROWS_AS(swiglu(gate, Variable()), ValueError);
}
