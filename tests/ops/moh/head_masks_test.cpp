#include "ops/moh/head_masks.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "ops/moh/hard_concrete.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kHeads = 6;

/// Draws for which the masks of the cases are neither 0 nor 1, where they have a kink.
const std::vector<double> uniform_draws = {0.5, 0.45, 0.4, 0.55, 0.6, 0.5};

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

}  // namespace

OP_CASES(head_masks) {
  OpCases cases;
  for (const double count : {3.0, 4.5}) {
    cases.push_back(
        {.name = "of " + std::to_string(count),
         .inputs = {uniform({kHeads}, -0.05, 0.05)},
         .run = [=](const Inputs& in) { return Outputs{head_masks(in[0], count, uniform_draws)}; },
         .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
           const Tensor z = empty({kHeads}, DType::kFloat64);
           const std::vector<double> alpha = log_alpha(in[0], count);
           for (std::size_t h = 0; h < alpha.size(); ++h)
             z.data<double>()[h] = hard_concrete::sample(alpha[h], uniform_draws[h]).z;
           return {z};
         },
         .low_precision = false,
         .absent_on_gpu = "head_masks is computed on the CPU"});
  }
  return cases;
}

TEST_CASE("moh: as many heads are unmasked as is asked, whatever the scores") {
  constexpr int kTimes = 4000;
  for (const auto& [spread, count] : {std::pair{0.0, 2.0}, {0.1, 2.0}, {3.0, 4.0}, {1e4, 3.0}}) {
    const Tensor scores = normal({kHeads});
    scores.scale(spread);
    double on = 0;
    for (int i = 0; i < kTimes; ++i) {
      std::vector<double> draws;
      for (std::uint64_t h = 0; h < kHeads; ++h)
        draws.push_back(random_uniform({7, static_cast<std::uint64_t>(i)}, h) + 0x1p-25);
      const Tensor z = head_masks(Variable(scores), count, draws).value();
      for (const double of_head : z.span<double>()) on += of_head > 0;
    }
    INFO(spread);
    CHECK(on / kTimes == Approx(count).margin(0.06));
  }
}

TEST_CASE("moh: adding to all scores changes no mask, and so their gradient sums to 0") {
  const Tensor scores = normal({kHeads});
  scores.scale(0.05);
  const Tensor shifted = empty_like(scores);
  for (std::int64_t h = 0; h < kHeads; ++h) shifted.data<double>()[h] = scores.data<double>()[h] + 0.7;
  const Variable a(scores, true), b(shifted);
  const Variable z = head_masks(a, 3, uniform_draws), same = head_masks(b, 3, uniform_draws);
  for (std::int64_t h = 0; h < kHeads; ++h)
    CHECK(z.value().data<double>()[h] == Approx(same.value().data<double>()[h]).margin(1e-9));
  z.backward(normal({kHeads}, 3));
  double sum = 0, largest = 0;
  for (const double g : a.grad().span<double>()) {
    sum += g;
    largest = std::max(largest, std::abs(g));
  }
  CHECK(largest > 0.1);
  CHECK(sum == Approx(0).margin(1e-9));
}

TEST_CASE("moh: masks that cannot be are refused") {
  const Variable scores(normal({kHeads}));
  CHECK_THROWS_WITH(head_masks(scores, 6, uniform_draws),
                    "head_masks: count: expected above 0, below the 6 heads, found 6.000000");
  CHECK_THROWS_AS(head_masks(scores, 0, uniform_draws), ValueError);
  CHECK_THROWS_AS(head_masks(scores, 3, std::span(uniform_draws).first(5)), ShapeError);
  CHECK_THROWS_AS(head_masks(Variable(normal({2, 3})), 3, uniform_draws), ShapeError);
  CHECK(first_unmasked(100) == Approx(99));
}
