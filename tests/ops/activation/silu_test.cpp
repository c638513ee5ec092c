#include "ops/activation/silu.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

OP_CASES(silu) {
  OpCases cases;
  for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{1}, Shape{3, 7}, Shape{2, 3, 33}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {uniform(shape, -8.0, 8.0)},
                     .run = [](const Inputs& in) { return Outputs{silu(in[0])}; },
                     .reference =
                         [](const std::vector<Tensor>& in) {
                           Tensor y = empty_like(in[0]);
                           for (std::int64_t i = 0; i < y.numel(); ++i) {
                             const double x = in[0].data<double>()[i];
                             y.data<double>()[i] = x / (1.0 + std::exp(-x));
                           }
                           return std::vector<Tensor>{y};
                         }});
  }
  return cases;
}

TEST_CASE("ops: silu keeps its relative precision in the tail, with every instruction set", "[every_isa]") {
  const Tensor x = uniform({4000}, -87.0, 87.0).to(DType::kFloat32);
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    const Variable y = silu(Variable(x));
    double worst = 0.0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double xi = x.data<float>()[i], exact = xi / (1.0 + std::exp(-xi));
      worst = std::max(worst, std::abs(y.value().data<float>()[i] / exact - 1.0));
    }
    INFO(cpu_isa_name(isa));
    CHECK(worst < 3e-7);
  }
}

TEST_CASE("ops: silu passes on what is not a number") {
  const Variable y = silu(Variable(tensor_of<float>({3}, {NAN, INFINITY, -1e30F})));
  CHECK(std::isnan(y.value().data<float>()[0]));
  CHECK(y.value().data<float>()[1] == INFINITY);
  CHECK(y.value().data<float>()[2] == 0.0F);
}

TEST_CASE("ops: silu refuses what does not fit") {
  CHECK_THROWS_AS(silu(Variable()), ValueError);
  CHECK_THROWS_WITH(silu(Variable(zeros({2}, DType::kInt32))),
                    "silu: x: expected float32, bfloat16 or float64, found int32");
}
