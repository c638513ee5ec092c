#include "ops/activation/gelu.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/ops/activation/gelu_reference.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

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

TEST_CASE("ops: gelu keeps its relative precision left of zero, with every instruction set", "[every_isa]") {
  const auto worst_of = [](const Tensor& x) {
    const Tensor given = x.to(DType::kFloat64),
                 found = gelu(Variable(x), GeluForm::kExact).value().to(DType::kFloat64);
    double worst = 0.0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double exact = gelu_of(given.data<double>()[i], GeluForm::kExact);
      if (exact != 0.0) worst = std::max(worst, std::abs(found.data<double>()[i] / exact - 1.0));
    }
    return worst;
  };
  const Tensor x = uniform({4000}, -6.0, 0.0);
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    INFO(cpu_isa_name(isa));
    CHECK(worst_of(x.to(DType::kFloat32)) < 3e-6);  // half of x^2 roundings in the exponential, at x = -6
    CHECK(worst_of(x.to(DType::kBFloat16)) < 0x1p-8 + 0x1p-11);
  }
}

TEST_CASE("ops: gelu is right for large inputs, with every instruction set", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    INFO(cpu_isa_name(isa));
    for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const Tensor given = tensor_of<float>({5}, {-1e30F, -200.0F, 200.0F, 1e30F, NAN}).to(dtype);
        const Variable x(given, true);
        const Variable y = gelu(x, form);
        y.backward(full({5}, 1.0, dtype));
        const Tensor value = y.value().to(DType::kFloat32), slope = x.grad().to(DType::kFloat32),
                     wide = given.to(DType::kFloat32);
        for (int i = 0; i < 4; ++i) {
          CHECK(value.data<float>()[i] == (i < 2 ? 0.0F : wide.data<float>()[i]));
          CHECK(slope.data<float>()[i] == (i < 2 ? 0.0F : 1.0F));
        }
        CHECK(std::isnan(value.data<float>()[4]));
        CHECK(std::isnan(slope.data<float>()[4]));
      }
    }
  }
}

TEST_CASE("ops: gelu refuses what does not fit") {
  CHECK_THROWS_AS(gelu(Variable(), GeluForm::kExact), ValueError);
  CHECK_THROWS_AS(gelu(Variable(zeros({2}, DType::kInt64)), GeluForm::kTanh), DTypeError);
}
