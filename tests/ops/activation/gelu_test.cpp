#include "ops/activation/gelu.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/ops/activation/gelu_reference.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

OP_CASES(gelu) {
  OpCases cases;
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{1}, Shape{3, 7}, Shape{2, 3, 33}}) {
      cases.push_back({.name = to_string(shape) + (form == GeluForm::kExact ? " exact" : " tanh"),
                       .inputs = {uniform(shape, -5.0, 5.0)},
                       .run = [=](const Inputs& in) { return Outputs{gelu(in[0], form)}; },
                       .reference =
                           [=](const std::vector<Tensor>& in) {
                             Tensor y = empty_like(in[0]);
                             for (std::int64_t i = 0; i < y.numel(); ++i) {
                               y.data<double>()[i] = gelu_of(in[0].data<double>()[i], form);
                             }
                             return std::vector<Tensor>{y};
                           }});
    }
  }
  return cases;
}

TEST_CASE("ops: gelu keeps its relative precision left of zero, with every instruction set") {
  const Tensor x = uniform({4000}, -6.0, 0.0).to(DType::kFloat32);
  for (const CpuIsa isa : kCpuIsas) {
    if (!cpu_has_isa(isa)) continue;
    const CpuIsaScope scope(isa);
    const Variable y = gelu(Variable(x), GeluForm::kExact);
    double worst = 0.0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double exact = gelu_of(x.data<float>()[i], GeluForm::kExact);
      if (exact != 0.0) worst = std::max(worst, std::abs(y.value().data<float>()[i] / exact - 1.0));
    }
    INFO(cpu_isa_name(isa));
    CHECK(worst < 3e-6);  // half of x^2 roundings in the exponential, at x = -6
  }
}

TEST_CASE("ops: gelu is right for large inputs") {
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    const Variable x(tensor_of<float>({5}, {-1e30F, -200.0F, 200.0F, 1e30F, NAN}), true);
    const Variable y = gelu(x, form);
    y.backward(full({5}, 1.0, DType::kFloat32));
    CHECK(y.value().data<float>()[0] == 0.0F);
    CHECK(y.value().data<float>()[1] == 0.0F);
    CHECK(y.value().data<float>()[2] == 200.0F);
    CHECK(y.value().data<float>()[3] == 1e30F);
    CHECK(std::isnan(y.value().data<float>()[4]));
    CHECK(x.grad().data<float>()[0] == 0.0F);
    CHECK(x.grad().data<float>()[1] == 0.0F);
    CHECK(x.grad().data<float>()[2] == 1.0F);
    CHECK(x.grad().data<float>()[3] == 1.0F);
    CHECK(std::isnan(x.grad().data<float>()[4]));
  }
}

TEST_CASE("ops: gelu refuses what does not fit") {
  CHECK_THROWS_AS(gelu(Variable(), GeluForm::kExact), ValueError);
  CHECK_THROWS_AS(gelu(Variable(zeros({2}, DType::kInt64)), GeluForm::kTanh), DTypeError);
}
