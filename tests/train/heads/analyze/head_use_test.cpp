#include "train/heads/analyze/head_use.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"

using namespace moh;

TEST_CASE("analyze: load and gates by label, counted by hand") {
  // 3 heads, the first shared; tokens 0, 1, 3 of label 0, token 2 of label 1.
  const std::vector<std::uint8_t> selected = {1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 0};
  const std::vector<float> gates = {0.5F, 2, 0, 1.5F, 0, 1, 1, 0, 3, 1, 4, 0};
  HeadUseCounter counter(3, 2);
  // In two calls: a forward pass is not where counting ends.
  counter.add(std::span(gates).first(6), std::span(selected).first(6), std::array{0, 0});
  counter.add(std::span(gates).subspan(6), std::span(selected).subspan(6), std::array{1, 0});

  const HeadUse first = counter.of_label(0);
  CHECK(first.tokens == 3);
  CHECK(first.load == std::vector<double>{1, 2.0 / 3, 1.0 / 3});
  CHECK(first.gate_mean == std::vector<double>{1, 3, 1});
  CHECK(first.gate_std[0] == Approx(std::sqrt(0.5 / 3)));
  CHECK(first.gate_std[1] == Approx(1));
  CHECK(first.gate_std[2] == 0);

  const HeadUse second = counter.of_label(1);
  CHECK(second.tokens == 1);
  CHECK(second.load == std::vector<double>{1, 0, 1});
  CHECK(std::isnan(second.gate_mean[1]));
  CHECK(std::isnan(second.gate_std[1]));

  const HeadUse all = counter.overall();
  CHECK(all.tokens == 4);
  CHECK(all.load == std::vector<double>{1, 0.5, 0.5});
  CHECK(all.gate_mean[2] == Approx(2));
  CHECK(all.gate_std[2] == Approx(1));
}

TEST_CASE("analyze: a label without tokens has no load") {
  const HeadUseCounter counter(2, 1);
  CHECK(counter.of_label(0).tokens == 0);
  CHECK(std::isnan(counter.of_label(0).load[0]));
}

TEST_CASE("analyze: a label outside its range is refused") {
  HeadUseCounter counter(1, 2);
  const std::vector<float> gates = {1};
  const std::vector<std::uint8_t> selected = {1};
  CHECK_THROWS(counter.add(gates, selected, std::array{2}));
  CHECK_THROWS(counter.add(gates, selected, std::array{-1}));
  CHECK_THROWS_AS(counter.add(gates, selected, std::array{0, 0}), InternalError);
}

TEST_CASE("analyze: running moments of equal numbers, of far ones, and joined") {
  RunningMoments equal;
  for (int i = 0; i < 1000; ++i) equal.add(1.1);
  CHECK(equal.mean() == 1.1);
  CHECK(equal.standard_deviation() == 0);
  RunningMoments far, left, right;
  for (const double x : {4.0, 7.0, 13.0, 16.0}) far.add(1e9 + x);
  CHECK(far.standard_deviation() == Approx(std::sqrt(22.5)));
  left.add(1), left.add(2), right.add(6);
  left.add(right);
  left.add(RunningMoments());
  CHECK(left.count() == 3);
  CHECK(left.mean() == Approx(3));
  CHECK(left.standard_deviation() == Approx(std::sqrt(14.0 / 3)));
}

TEST_CASE("analyze: balance of loads") {
  const LoadBalance even = balance_of(std::array{0.5, 0.5, 0.5, 0.5});
  CHECK(even.entropy == Approx(1));
  CHECK(even.imbalance == Approx(1));
  CHECK(even.unused == 0);
  const LoadBalance half = balance_of(std::array{1.0, 0.0, 1.0, 0.0});
  CHECK(half.entropy == Approx(0.5));  // log 2 / log 4
  CHECK(half.imbalance == Approx(2));
  CHECK(half.unused == 2);
  const LoadBalance one = balance_of(std::array{0.0, 1.0});
  CHECK(one.entropy == 0);
  CHECK(one.imbalance == Approx(2));
  CHECK(balance_of(std::array{0.7}).entropy == 1);
  CHECK(std::isnan(balance_of(std::array{0.0, 0.0}).entropy));
  CHECK(balance_of(std::array{0.0, 0.0}).unused == 2);
}
