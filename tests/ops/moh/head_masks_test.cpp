#include "ops/moh/head_masks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "ops/moh/hard_concrete.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kMaskedHeads = 6;

double draw_of(RandomKey key, std::uint64_t h) {
  return random_uniform(key, h) + hard_concrete::kHalfStep;
}

Tensor scalar(double value, Device device = kCpu) {
  return tensor_of<double>({}, {value}).to(device);
}

/// log_alpha by another search than the op's: Newton's, on the condition itself.
std::vector<double> log_alpha(const Tensor& scores, double count) {
  double c = 0;
  const auto alpha = [&](std::int64_t h) { return 10 * scores.data<double>()[h] + c; };
  for (int i = 0; i < 200; ++i) {
    double sum = 0, slope = 0;
    for (std::int64_t h = 0; h < scores.numel(); ++h) {
      const double p = hard_concrete::probability_on(alpha(h));
      sum += p;
      slope += p * (1 - p);
    }
    c += std::max(-1.0, std::min(1.0, (count - sum) / slope));
  }
  std::vector<double> all;
  for (std::int64_t h = 0; h < scores.numel(); ++h) all.push_back(alpha(h));
  return all;
}

Tensor expected_masks(const Tensor& scores, double count, RandomKey key) {
  Tensor z = empty({kMaskedHeads}, DType::kFloat64);
  const std::vector<double> alpha = log_alpha(scores, count);
  for (std::size_t h = 0; h < alpha.size(); ++h)
    z.data<double>()[h] = hard_concrete::sample(alpha[h], draw_of(key, h)).z;
  return z;
}

/// The first stream of draws for which no mask is at 0 or 1, where it has a kink.
RandomKey smooth_key(const Tensor& scores, double count) {
  for (RandomKey key{.seed = 3};; ++key.stream) {
    const Tensor masks = expected_masks(scores, count, key);
    const auto z = masks.span<double>();
    if (std::ranges::all_of(z, [](double value) { return value > 0.02 && value < 0.98; })) return key;
  }
}

}  // namespace

OP_CASES(head_masks) {
  OpCases cases;
  for (const double count : {3.0, 4.5}) {
    const Tensor scores = uniform({kMaskedHeads}, -0.05, 0.05);
    const RandomKey key = smooth_key(scores, count);
    cases.push_back(
        {.name = "of " + std::to_string(count),
         .inputs = {scores},
         .run =
             [=](const Inputs& in) { return Outputs{head_masks(in[0], scalar(count, in[0].device()), key)}; },
         .reference =
             [=](const std::vector<Tensor>& in) {
               return std::vector<Tensor>{expected_masks(in[0], count, key)};
             },
         .low_precision = false});
  }
  return cases;
}

TEST_CASE("moh: as many heads are unmasked as is asked, whatever the scores") {
  constexpr int kTimes = 4000;
  for (const auto& [spread, count] : {std::pair{0.0, 2.0}, {0.1, 2.0}, {3.0, 4.0}, {1e4, 3.0}}) {
    const Tensor scores = normal({kMaskedHeads});
    scores.scale(spread);
    double on = 0;
    for (int i = 0; i < kTimes; ++i) {
      const Tensor z =
          head_masks(Variable(scores), scalar(count), {7, static_cast<std::uint64_t>(i)}).value();
      for (const double of_head : z.span<double>()) on += of_head > 0;
    }
    INFO(spread);
    CHECK(on / kTimes == Approx(count).margin(0.06));
  }
}

TEST_CASE("moh: adding to all scores changes no mask, and so their gradient sums to 0") {
  const Tensor scores = normal({kMaskedHeads});
  scores.scale(0.05);
  const Tensor shifted = empty_like(scores);
  for (std::int64_t h = 0; h < kMaskedHeads; ++h) shifted.data<double>()[h] = scores.data<double>()[h] + 0.7;
  const Variable a(scores, true), b(shifted);
  const RandomKey key = smooth_key(scores, 3);
  const Variable z = head_masks(a, scalar(3), key), same = head_masks(b, scalar(3), key);
  for (std::int64_t h = 0; h < kMaskedHeads; ++h)
    CHECK(z.value().data<double>()[h] == Approx(same.value().data<double>()[h]).margin(1e-9));
  z.backward(normal({kMaskedHeads}, 3));
  double sum = 0, largest = 0;
  for (const double g : a.grad().span<double>()) {
    sum += g;
    largest = std::max(largest, std::abs(g));
  }
  CHECK(largest > 0.1);
  CHECK(sum == Approx(0).margin(1e-9));
}

TEST_CASE("moh: masks that cannot be are refused") {
  const Variable scores(normal({kMaskedHeads}));
  CHECK_THROWS_WITH(head_masks(scores, scalar(6), {}),
                    "head_masks: count: expected above 0, below the 6 heads, found 6.000000");
  CHECK_THROWS_AS(head_masks(scores, scalar(0), {}), ValueError);
  CHECK_THROWS_AS(head_masks(scores, normal({5}), {}), ShapeError);
  CHECK_THROWS_AS(head_masks(scores, scalar(3).to(DType::kFloat32), {}), DTypeError);
  CHECK_THROWS_AS(head_masks(Variable(scores.value().to(DType::kBFloat16)), scalar(3), {}), DTypeError);
  CHECK_THROWS_AS(head_masks(Variable(normal({2, 3})), scalar(3), {}), ShapeError);
  CHECK(first_unmasked(100) == Approx(99));
}
