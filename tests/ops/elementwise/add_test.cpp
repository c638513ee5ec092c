#include "ops/elementwise/add.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> add_reference(const std::vector<Tensor>& in) {
  Tensor y = empty_like(in[0]);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    y.data<double>()[i] = in[0].data<double>()[i] + in[1].data<double>()[i];
  }
  return {y};
}

}  // namespace

OP_CASES(add) {
  OpCases cases;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{17}, Shape{3, 5, 2}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape), normal(shape, 2)},
                     .run = [](const Inputs& in) { return Outputs{add(in[0], in[1])}; },
                     .reference = add_reference});
  }
  cases.push_back({.name = "x + x",
                   .inputs = {normal({33})},
                   .run = [](const Inputs& in) { return Outputs{add(in[0], in[0])}; },
                   .reference =
                       [](const std::vector<Tensor>& in) {
                         return add_reference({in[0], in[0]});
                       }});
  return cases;
}

TEST_CASE("ops: add covers more than one chunk") {
  const Tensor a = normal({40000}).to(DType::kFloat32), b = normal({40000}, 2).to(DType::kFloat32);
  const Variable y = add(Variable(a), Variable(b));
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    REQUIRE(y.value().data<float>()[i] == a.data<float>()[i] + b.data<float>()[i]);
  }
}

TEST_CASE("ops: add refuses what does not fit") {
  const Variable a(normal({3, 7}));
  CHECK_THROWS_WITH(add(a, Variable(normal({7, 3}))), "add: b: expected shape [3, 7] (as a), found [7, 3]");
  CHECK_THROWS_WITH(add(a, Variable(normal({3, 7}).to(DType::kFloat32))),
                    "add: b: expected float64 as a, found float32");
  CHECK_THROWS_AS(add(Variable(), a), ValueError);
  CHECK_THROWS_AS(add(a, Variable()), ValueError);
  CHECK_THROWS_AS(add(Variable(zeros({2}, DType::kInt64)), Variable(zeros({2}, DType::kInt64))), DTypeError);
}
