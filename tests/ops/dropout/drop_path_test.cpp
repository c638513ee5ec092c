#include "ops/dropout/drop_path.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/add.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr RandomKey kDropPathKey{0xfedcba987654321ULL, (std::uint64_t{5} << 20) + 2};

/// Sample b is multiplied by what dropout multiplies element b by; and so is its gradient.
std::vector<Tensor> drop_path_reference(const Tensor& x, double rate) {
  const std::int64_t samples = x.dim(0);
  const Tensor factors = dropout(Variable(full({samples}, 1.0, DType::kFloat64)), rate, kDropPathKey).value();
  Tensor y = empty_like(x);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    y.data<double>()[i] = x.data<double>()[i] * factors.data<double>()[i / (x.numel() / samples)];
  }
  return {y};
}

}  // namespace

OP_CASES(drop_path) {
  OpCases cases;
  for (const double rate : {0.25, 0.6}) {
    // The last two have more than a block's part in float32, of pieces that are aligned, and that are not.
    for (const Shape& shape :
         {Shape{0, 4}, Shape{3, 0}, Shape{1}, Shape{9}, Shape{7, 3, 5}, Shape{2, 3000, 4}, Shape{3, 8193}}) {
      cases.push_back({.name = to_string(shape) + " rate " + std::to_string(rate),
                       .inputs = {normal(shape)},
                       .run = [=](const Inputs& in) { return Outputs{drop_path(in[0], rate, kDropPathKey)}; },
                       .reference = [=](const auto& in) { return drop_path_reference(in[0], rate); }});
      if (shape.numel() > 20000) {
        cases.back().gradients = [=](const auto&, const auto& dy) {
          return drop_path_reference(dy[0], rate);
        };
      }
    }
  }
  return cases;
}

OP_CASES(add_drop_path) {
  OpCases cases;
  for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}, Shape{9}, Shape{7, 3, 5}, Shape{3, 2056}}) {
    cases.push_back(
        {.name = to_string(shape),
         .inputs = {normal(shape), normal(shape, 2)},
         .run = [=](const Inputs& in) { return Outputs{add_drop_path(in[0], in[1], 0.4, kDropPathKey)}; },
         .reference =
             [](const auto& in) {
               std::vector<Tensor> sum = drop_path_reference(in[1], 0.4);
               sum[0].add(in[0]);
               return sum;
             }});
  }
  return cases;
}

TEST_CASE("ops: add_drop_path has the bits of the two ops on a CPU") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Variable x(normal({5, 333}).to(dtype)), branch(normal({5, 333}, 2).to(dtype));
    const Tensor one = add_drop_path(x, branch, 0.3, kDropPathKey).value(),
                 two = add(x, drop_path(branch, 0.3, kDropPathKey)).value();
    CHECK(std::memcmp(one.raw(), two.raw(), one.bytes()) == 0);
  }
}

TEST_CASE("ops: drop_path keeps whole samples, the share 1 - rate of them, by draws of the key") {
  constexpr std::int64_t kSamples = 20000, kWidth = 3;
  const Variable x(full({kSamples, kWidth}, 1.0, DType::kFloat32));
  const Tensor y = drop_path(x, 0.2, kDropPathKey).value(),
               other = drop_path(x, 0.2, {kDropPathKey.seed, 1}).value();
  double kept = 0.0, both = 0.0;
  for (std::int64_t b = 0; b < kSamples; ++b) {
    const float* sample = y.data<float>() + b * kWidth;
    REQUIRE((sample[0] == 0.0F || sample[0] == 1.25F));
    REQUIRE((sample[1] == sample[0] && sample[2] == sample[0]));
    kept += sample[0] != 0.0F;
    both += sample[0] != 0.0F && other.data<float>()[b * kWidth] != 0.0F;
  }
  // Five standard deviations of a binomial share.
  CHECK(kept / kSamples == Approx(0.8).margin(5.0 * std::sqrt(0.16 / kSamples)));
  CHECK(both / kSamples == Approx(0.64).margin(5.0 * std::sqrt(0.64 * 0.36 / kSamples)));
}

TEST_CASE("ops: drop_path of rate 0 is the identity") {
  const Variable x(normal({5, 2}), true);
  CHECK(drop_path(x, 0.0, kDropPathKey).value().shares_storage_with(x.value()));
  CHECK(drop_path(x, 0.0, kDropPathKey).is_leaf());
}

TEST_CASE("ops: drop_path refuses what does not fit") {
  const Variable x(normal({3, 2}));
  CHECK_THROWS_WITH(drop_path(x, 1.0, kDropPathKey),
                    "drop_path: rate: expected 0 or more and below 1, found 1.000000");
  CHECK_THROWS_AS(drop_path(x, -0.1, kDropPathKey), ValueError);
  CHECK_THROWS_AS(drop_path(x, NAN, kDropPathKey), ValueError);
  CHECK_THROWS_AS(drop_path(Variable(), 0.1, kDropPathKey), ValueError);
  CHECK_THROWS_AS(add_drop_path(Variable(normal({2, 3})), x, 0.1, kDropPathKey), ShapeError);
  CHECK_THROWS_AS(drop_path(Variable(normal({})), 0.1, kDropPathKey), ShapeError);
  CHECK_THROWS_AS(drop_path(Variable(zeros({2}, DType::kInt32)), 0.1, kDropPathKey), DTypeError);
}
