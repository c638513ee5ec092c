#include "ops/moh/balance_bias.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<double> elements_of(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::kFloat64);
  return {wide.span<double>().begin(), wide.span<double>().end()};
}

constexpr double kBalanceBiasRate = 0.25;

/// Two micro-batches, with the loads of four heads between other numbers.
StepLoadRows some_loads() {
  return {tensor_of<double>({2, 6}, {9, 0.5, 0.25, 0.75, 0.5, -9,  //
                                     9, 0.75, 0.25, 0.5, 0.5, -9}),
          1};
}

}  // namespace

TEST_CASE("ops: biases follow the sign of what a head's load of the step lacks of the mean", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    INFO(cpu_isa_name(isa));
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      // Sums 1.25, 0.5, 1.25, 1: the mean is 1.
      const Tensor bias = tensor_of<double>({4}, {0, 1, -1, 2}).to(dtype);
      update_balance_bias(bias, some_loads(), 1, kBalanceBiasRate);
      CHECK(elements_of(bias) == std::vector<double>{-0.25, 1.25, -1.25, 2});
    }
  }
}

TEST_CASE("ops: biases of each group follow the group's own mean") {
  const Tensor bias = zeros({4}, DType::kFloat32);
  update_balance_bias(bias, some_loads(), 2, kBalanceBiasRate);  // means 0.875 and 1.125
  CHECK(elements_of(bias) == std::vector<double>{-0.25, 0.25, -0.25, 0.25});
}

TEST_CASE("ops: equal loads leave the biases where they are, also where a third is rounded") {
  const Tensor third = full({2, 3}, 1.0F / 3.0F, DType::kFloat32).to(DType::kFloat64);
  const Tensor bias = zeros({3}, DType::kFloat32);
  update_balance_bias(bias, {third, 0}, 1, kBalanceBiasRate);
  CHECK(elements_of(bias) == std::vector<double>{0, 0, 0});
  // A sixth and a half are two thirds but for rounding to float32; one token of 10,000 more is none of that.
  const Tensor parts = tensor_of<float>({2, 2}, {1.0F / 6, 1.0F / 3, 0.5F, 1.0F / 3}).to(DType::kFloat64);
  const Tensor two = zeros({2}, DType::kFloat32);
  update_balance_bias(two, {parts, 0}, 1, kBalanceBiasRate);
  CHECK(elements_of(two) == std::vector<double>{0, 0});
  parts.data<double>()[0] += 1e-4;
  update_balance_bias(two, {parts, 0}, 1, kBalanceBiasRate);
  CHECK(elements_of(two) == std::vector<double>{-kBalanceBiasRate, kBalanceBiasRate});
}

TEST_CASE("ops: biases of a step that was skipped stay") {
  const Tensor bias = zeros({4}, DType::kFloat32);
  update_balance_bias(bias, some_loads(), 1, kBalanceBiasRate, full({1}, 0.0, DType::kFloat64));
  CHECK(elements_of(bias) == std::vector<double>{0, 0, 0, 0});
  update_balance_bias(bias, some_loads(), 1, kBalanceBiasRate, full({1}, 1.0, DType::kFloat64));
  CHECK(elements_of(bias) == std::vector<double>{-0.25, 0.25, -0.25, 0});
}

TEST_CASE("ops: updates of biases refuse what does not fit") {
  const Tensor bias = zeros({4}, DType::kFloat32);
  CHECK_THROWS_AS(update_balance_bias(zeros({4}, DType::kBFloat16), some_loads(), 1, kBalanceBiasRate),
                  DTypeError);
  CHECK_THROWS_AS(update_balance_bias(bias, {zeros({2, 6}, DType::kFloat32), 1}, 1, kBalanceBiasRate),
                  DTypeError);
  CHECK_THROWS_WITH(update_balance_bias(bias, {some_loads().rows, 3}, 1, kBalanceBiasRate),
                    "update_balance_bias: loads: expected 4 columns from 3 on, found [2, 6]");
  CHECK_THROWS_WITH(update_balance_bias(bias, some_loads(), 3, kBalanceBiasRate),
                    "update_balance_bias: groups: expected a divisor of the 4 routed heads, found 3");
  CHECK_THROWS_AS(update_balance_bias(bias, some_loads(), 1, -1), ValueError);
}
