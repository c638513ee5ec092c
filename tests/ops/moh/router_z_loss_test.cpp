#include "ops/moh/router_z_loss.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> router_z_loss_reference(const std::vector<Tensor>& in) {
  const std::int64_t tokens = in[0].dim(0), experts = in[0].dim(1);
  double loss = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(in[0].data<double>()[t * experts + e]);
    loss += std::log(sum) * std::log(sum) / static_cast<double>(tokens);
  }
  return {full({}, loss, DType::kFloat64)};
}

}  // namespace

OP_CASES(router_z_loss) {
  OpCases cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{0, 3}, Shape{7, 5}, Shape{300, 24}, Shape{3, 33}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape)},
                     .run = [](const Inputs& in) { return Outputs{router_z_loss(in[0])}; },
                     .reference = router_z_loss_reference});
  }
  return cases;
}

TEST_CASE("ops: router_z_loss of zeros is the squared logarithm of the number of heads") {
  const Variable zero(zeros({5, 8}, DType::kFloat32)), large(full({2, 3}, 1e4, DType::kFloat32));
  CHECK(router_z_loss(zero).value().item() == Approx(std::pow(std::log(8), 2)));
  CHECK(router_z_loss(large).value().item() == Approx(1e8).epsilon(1e-3));  // without an overflow
}

TEST_CASE("ops: router_z_loss refuses what does not fit") {
  CHECK_THROWS_AS(router_z_loss(Variable(normal({3}))), ShapeError);
  CHECK_THROWS_WITH(router_z_loss(Variable(normal({3, 0}))),
                    "router_z_loss: logits: expected a logit or more for each token, found [3, 0]");
}
