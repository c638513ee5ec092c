#include "ops/loss/smoothed_cross_entropy.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/soft_cross_entropy.h"
#include "tests/ops/op_cases.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Targets of which about every third is ignored.
Tensor targets_of(const Shape& shape, std::int64_t bound, DType dtype) {
  const Tensor targets = empty(shape, DType::kInt64);
  for (std::int64_t i = 0; i < targets.numel(); ++i)
    targets.data<std::int64_t>()[i] = i % 3 == 1 ? kIgnoredTarget : i * 5 % bound;
  return targets.to(dtype);
}

/// The mean of -log p over a distribution with 1 - eps for the target and eps / (V - 1) for each other label,
/// and the target's -log p.
std::vector<Tensor> smoothed_cross_entropy_reference(const std::vector<Tensor>& in, double smoothing,
                                                     double normalizer) {
  const std::int64_t width = in[0].dim(-1);
  const Tensor ids = in[1].to(DType::kInt64);
  double loss = 0, nll = 0;
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    const std::int64_t target = ids.data<std::int64_t>()[i];
    if (target == kIgnoredTarget) continue;
    const double* row = in[0].data<double>() + i * width;
    double sum = 0;
    for (std::int64_t j = 0; j < width; ++j) sum += std::exp(row[j]);
    for (std::int64_t j = 0; j < width; ++j) {
      const double other = smoothing == 0 ? 0 : smoothing / static_cast<double>(width - 1);
      loss += (j == target ? 1 - smoothing : other) * (std::log(sum) - row[j]);
    }
    nll += std::log(sum) - row[target];
  }
  return {full({}, loss / normalizer, DType::kFloat64), full({}, nll / normalizer, DType::kFloat64)};
}

}  // namespace

OP_CASES(smoothed_cross_entropy) {
  struct Sizes {
    Shape targets;
    std::int64_t width;
    double smoothing;
  };
  OpCases cases;
  for (const Sizes& s : {Sizes{{}, 3, 0.1}, Sizes{{1}, 2, 0.25}, Sizes{{0}, 4, 0.1}, Sizes{{5}, 7, 0.1},
                         Sizes{{2, 3}, 33, 0.9}, Sizes{{70}, 17, 0.1}, Sizes{{4}, 2050, 0.1},
                         Sizes{{3}, 1, 0.0}, Sizes{{5}, 9, 0.0}}) {
    std::vector<std::int64_t> extents(s.targets.extents().begin(), s.targets.extents().end());
    extents.push_back(s.width);
    const Tensor logits = uniform(Shape(std::span<const std::int64_t>(extents)), -4.0, 4.0);
    for (const bool consumed : {false, true}) {
      const DType dtype = consumed ? DType::kInt32 : DType::kInt64;
      cases.push_back({.name = to_string(logits.shape()) + " by " + std::to_string(s.smoothing) +
                               (consumed ? " consumed" : " kept"),
                       .inputs = {logits, targets_of(s.targets, s.width, dtype)},
                       .run =
                           [=, smoothing = s.smoothing](const Inputs& in) {
                             // The result of an op is consumed, a leaf is not.
                             const Variable x = consumed ? scale(in[0], 1.0) : in[0];
                             const SmoothedLoss y = smoothed_cross_entropy(
                                 x, in[1].value(), {.smoothing = smoothing, .normalizer = 3.0});
                             return Outputs{y.loss, Variable(y.nll)};
                           },
                       .reference =
                           [smoothing = s.smoothing](const std::vector<Tensor>& in) {
                             return smoothed_cross_entropy_reference(in, smoothing, 3.0);
                           }});
    }
  }
  return cases;
}

TEST_CASE("ops: smoothed_cross_entropy without smoothing is cross_entropy, bit for bit") {
  const Tensor values = uniform({9, 130}, -5.0, 5.0).to(DType::kFloat32);
  const Tensor targets = targets_of({9}, 130, DType::kInt64);
  const Variable plain(values, true), smoothed(values, true);
  const Variable expected = cross_entropy(plain, targets, {.normalizer = 6});
  const SmoothedLoss found = smoothed_cross_entropy(smoothed, targets, {.normalizer = 6});
  CHECK(same_bits(found.loss.value(), expected.value()));
  CHECK(same_bits(found.nll, expected.value()));
  expected.backward();
  found.loss.backward();
  CHECK(same_bits(smoothed.grad(), plain.grad()));
}

TEST_CASE("ops: smoothed_cross_entropy is the cross entropy of the smoothed distribution") {
  constexpr std::int64_t kRows = 6, kWidth = 21;
  constexpr double kSmoothing = 0.1;
  const Tensor values = normal({kRows, kWidth}), ids = zeros({kRows}, DType::kInt64);
  const Tensor distributions = full({kRows, kWidth}, kSmoothing / (kWidth - 1), DType::kFloat64);
  for (std::int64_t i = 0; i < kRows; ++i) {
    ids.data<std::int64_t>()[i] = i * 4 % kWidth;
    distributions.data<double>()[i * kWidth + i * 4 % kWidth] = 1 - kSmoothing;
  }
  const Variable soft(values, true), smoothed(values, true);
  const Variable expected = soft_cross_entropy(soft, distributions, kRows);
  const Variable found =
      smoothed_cross_entropy(smoothed, ids, {.smoothing = kSmoothing, .normalizer = kRows}).loss;
  CHECK(found.value().item() == Approx(expected.value().item()).epsilon(1e-12));
  expected.backward();
  found.backward();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    CHECK(smoothed.grad().data<double>()[i] == Approx(soft.grad().data<double>()[i]).margin(1e-12));
}

TEST_CASE("ops: smoothed_cross_entropy writes the gradient over the logits, but not over those to be kept") {
  const Tensor values = normal({4, 5}).to(DType::kFloat32), targets = targets_of({4}, 5, DType::kInt64);
  const auto after = [&](bool keep) {
    const Variable logits = scale(Variable(values.clone(), true), 1.0);
    smoothed_cross_entropy(logits, targets, {.smoothing = 0.1, .keep_logits = keep}).loss.backward();
    return logits.value();
  };
  CHECK(same_bits(after(true), values));
  CHECK_FALSE(same_bits(after(false), values));
}

TEST_CASE("ops: smoothed_cross_entropy is right for huge logits, and says what is not a number") {
  const Variable x(tensor_of<float>({2, 2}, {1e30F, 1e30F, -5e4F, -5e4F}), true);
  const Tensor ids = tensor_of<std::int64_t>({2}, {0, 1});
  const SmoothedLoss y = smoothed_cross_entropy(x, ids, {.smoothing = 0.5, .normalizer = 2});
  CHECK(y.loss.value().item() == Approx(std::log(2.0)).epsilon(1e-7));
  y.loss.backward();
  CHECK(x.grad().all_finite());
  // A masked label is impossible, and has no finite loss unless nothing is smoothed.
  const float inf = std::numeric_limits<float>::infinity();
  const Variable masked(tensor_of<float>({1, 3}, {0, 0, -inf}));
  const Tensor first = tensor_of<std::int64_t>({1}, {0});
  CHECK(smoothed_cross_entropy(masked, first, {}).loss.value().item() == Approx(std::log(2.0)));
  CHECK(smoothed_cross_entropy(masked, first, {.smoothing = 0.1}).loss.value().item() == inf);
  const Variable broken(tensor_of<float>({1, 2}, {std::nanf(""), 0}));
  CHECK(std::isnan(smoothed_cross_entropy(broken, first, {.smoothing = 0.1}).loss.value().item()));
}

TEST_CASE("ops: smoothed_cross_entropy refuses what does not fit") {
  const Variable logits(normal({2, 3}));
  const Tensor ids = zeros({2}, DType::kInt64);
  CHECK_NOTHROW(smoothed_cross_entropy(logits, ids, {.smoothing = 0.1}));
  for (const double smoothing : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_WITH(smoothed_cross_entropy(logits, ids, {.smoothing = smoothing}),
                      Catch::StartsWith("smoothed_cross_entropy: smoothing: expected 0 to below 1, found"));
  CHECK_THROWS_WITH(smoothed_cross_entropy(Variable(normal({2, 1})), ids, {.smoothing = 0.1}),
                    "smoothed_cross_entropy: smoothing: expected 0 with a single label, found 0.100000");
  CHECK_THROWS_WITH(smoothed_cross_entropy(logits, full({2}, 3, DType::kInt64), {}),
                    "smoothed_cross_entropy: targets: expected 0 to 2 or -100 (last axis of logits), found 3 "
                    "at [0]");
  CHECK_THROWS_AS(smoothed_cross_entropy(logits, zeros({3}, DType::kInt64), {}), ShapeError);
  CHECK_THROWS_AS(smoothed_cross_entropy(logits, normal({2}), {}), DTypeError);
  CHECK_THROWS_AS(smoothed_cross_entropy(logits, Tensor(), {}), ValueError);
  CHECK_THROWS_AS(smoothed_cross_entropy(logits, ids, {.normalizer = 0.0}), ValueError);
}
