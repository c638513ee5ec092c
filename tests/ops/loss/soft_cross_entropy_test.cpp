#include "ops/loss/soft_cross_entropy.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Positive targets of any sum, some of them 0.
Tensor some_distributions(const Shape& shape) {
  Tensor targets = uniform(shape, -0.2, 1.0, 7);
  for (double& t : targets.span<double>()) t = std::max(t, 0.0);
  return targets;
}

std::vector<Tensor> soft_cross_entropy_reference(const Tensor& logits, const Tensor& targets,
                                                 double normalizer) {
  const std::int64_t width = logits.dim(-1);
  double total = 0;
  for (std::int64_t i = 0; i < (width > 0 ? logits.numel() / width : 0); ++i) {
    const double *row = logits.data<double>() + i * width, *target = targets.data<double>() + i * width;
    double sum = 0;
    for (std::int64_t j = 0; j < width; ++j) sum += std::exp(row[j]);
    for (std::int64_t j = 0; j < width; ++j) total += target[j] * (std::log(sum) - row[j]);
  }
  return {full({}, total / normalizer, DType::kFloat64)};
}

}  // namespace

OP_CASES(soft_cross_entropy) {
  OpCases cases;
  for (const Shape& shape :
       {Shape{3}, Shape{1, 1}, Shape{0, 4}, Shape{5, 7}, Shape{2, 3, 33}, Shape{70, 17}}) {
    const Tensor targets = some_distributions(shape);
    cases.push_back(
        {.name = to_string(shape),
         .inputs = {uniform(shape, -4.0, 4.0)},
         .run =
             [=](const Inputs& in) {
               const DType dtype = accumulate_dtype(in[0].value().dtype());
               return Outputs{soft_cross_entropy(in[0], targets.to(dtype).to(in[0].device()), 3.0)};
             },
         .reference =
             [=](const std::vector<Tensor>& in) { return soft_cross_entropy_reference(in[0], targets, 3.0); },
         .gradient_scale = 0.1});  // the softmax and the target cancel
  }
  return cases;
}

TEST_CASE("ops: soft_cross_entropy of one-hot targets is cross_entropy") {
  const Tensor values = normal({9, 21}).to(DType::kFloat32), labels = zeros({9}, DType::kInt64);
  const Tensor targets = zeros({9, 21}, DType::kFloat32);
  for (std::int64_t i = 0; i < 9; ++i) {
    labels.data<std::int64_t>()[i] = i * 5 % 21;
    targets.data<float>()[i * 21 + i * 5 % 21] = 1;
  }
  const Variable hard(values, true), soft(values, true);
  const Variable expected = cross_entropy(hard, labels, {.normalizer = 9}),
                 found = soft_cross_entropy(soft, targets, 9);
  CHECK(found.value().item() == Approx(expected.value().item()).epsilon(1e-6));
  expected.backward();
  found.backward();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    CHECK(soft.grad().data<float>()[i] == Approx(hard.grad().data<float>()[i]).margin(1e-8));
}

TEST_CASE("ops: soft_cross_entropy is right for huge logits, and says what is not a number") {
  const Variable x(tensor_of<float>({2, 2}, {1e30F, 1e30F, -5e4F, -5e4F}), true);
  const Tensor half = full({2, 2}, 0.5, DType::kFloat32);
  const Variable loss = soft_cross_entropy(x, half, 2);
  CHECK(loss.value().item() == Approx(std::log(2.0)).epsilon(1e-7));
  loss.backward();
  CHECK(x.grad().data<float>()[0] == 0.0F);
  const Variable broken(tensor_of<float>({1, 2}, {std::nanf(""), 0}));
  CHECK(std::isnan(soft_cross_entropy(broken, full({1, 2}, 0.5, DType::kFloat32)).value().item()));
}

TEST_CASE("ops: soft_cross_entropy refuses what does not fit") {
  const Variable logits(normal({2, 3}).to(DType::kFloat32));
  const Tensor targets = zeros({2, 3}, DType::kFloat32);
  CHECK_NOTHROW(soft_cross_entropy(logits, targets));
  CHECK_THROWS_AS(soft_cross_entropy(logits, zeros({2, 4}, DType::kFloat32)), ShapeError);
  CHECK_THROWS_WITH(soft_cross_entropy(logits, zeros({2, 3}, DType::kFloat64)),
                    "soft_cross_entropy: targets: expected float32, found float64");
  CHECK_THROWS_AS(soft_cross_entropy(logits, Tensor()), ValueError);
  CHECK_THROWS_AS(soft_cross_entropy(Variable(), targets), ValueError);
  CHECK_THROWS_AS(soft_cross_entropy(logits, targets, 0), ValueError);
  for (const float share : {-0.1F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const Tensor wrong = tensor_of<float>({2, 3}, {0, 1, 0, 0, 0, share});
    CHECK_THROWS_WITH(
        soft_cross_entropy(logits, wrong),
        Catch::StartsWith("soft_cross_entropy: targets: expected finite numbers from 0 on, found") &&
            Catch::EndsWith("at row 1, class 2"));
  }
}
