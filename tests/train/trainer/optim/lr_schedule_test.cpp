#include "train/trainer/optim/lr_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "train/trainer/config/run_config.h"

using namespace moh;

TEST_CASE("optim: warmup is linear, the cosine runs from its end to the minimum and stays there") {
  const LrSchedule s{LrSchedule::Kind::kCosine, 1.0, 0.1, 0.2, 10, 110};
  CHECK(s.at(0) == Approx(0.2));
  CHECK(s.at(5) == Approx(0.6));
  CHECK(s.at(10) == Approx(1.0));
  CHECK(s.at(60) == Approx(0.55));  // half way
  CHECK(s.at(110) == Approx(0.1));
  CHECK(s.at(5000) == Approx(0.1));
  for (std::int64_t t = 10; t < 110; ++t) CHECK(s.at(t + 1) < s.at(t));
}

TEST_CASE("optim: a schedule of epochs sets the rate once per epoch, late by one as the released code") {
  const LrSchedule epochs{LrSchedule::Kind::kCosineFromStart, 1e-3, 1e-5, 1e-6, 5, 300};
  const StepRates rates{epochs, 10, false}, late{epochs, 10, true};
  for (const std::int64_t step : {0, 9, 10, 55, 2999}) {
    CHECK(rates.at(step) == epochs.at(step / 10));
    CHECK(late.at(step) == epochs.at(std::max<std::int64_t>(0, step / 10 - 1)));
  }
  CHECK(late.at(15) == 1e-6);  // the second epoch, too
}

TEST_CASE("optim: the rates of a run count the steps of its epochs") {
  RunConfig run;
  run.train.epochs = 20;
  run.schedule.peak = 1;
  run.schedule_epochs = {.warmup = 2, .decay = 10, .cooldown = 3};
  const RunLength length = length_of(run, 7);
  CHECK(length.steps == 140);
  const StepRates stepwise = rates_of(run, length);
  CHECK(stepwise.steps_per_epoch == 1);
  CHECK(stepwise.schedule.warmup_steps == 14);
  CHECK(stepwise.schedule.decay_steps == 70);
  CHECK(stepwise.schedule.cooldown_steps == 21);
  CHECK(stepwise.schedule.warmup_start == Approx(1.0 / 14));
  run.schedule_epochs.stepwise = false;
  const StepRates by_epoch = rates_of(run, length);
  CHECK(by_epoch.steps_per_epoch == 7);
  CHECK(by_epoch.schedule.warmup_steps == 2);
  CHECK(by_epoch.schedule.decay_steps == 10);
  CHECK(by_epoch.schedule.cooldown_steps == 3);
  run.schedule_epochs.decay = 0;
  CHECK(rates_of(run, length).schedule.decay_steps == 20);
  run.train = {.steps = 33};
  run.schedule_epochs = {};
  CHECK(length_of(run, 7).steps == 33);
  CHECK(rates_of(run, length_of(run, 0)).schedule.decay_steps == 33);
}

TEST_CASE("optim: a constant rate has a warmup, too, and no warmup starts at the peak") {
  const LrSchedule s{LrSchedule::Kind::kConstant, 1.0, 0.1, 0.0, 4, 8};
  CHECK(s.at(2) == Approx(0.5));
  CHECK(s.at(4) == 1.0);
  CHECK(s.at(100) == 1.0);
  CHECK(LrSchedule{LrSchedule::Kind::kCosine, 1.0, 0.0, 0.0, 0, 10}.at(0) == 1.0);
}

TEST_CASE("optim: the inverse square root begins at the peak and falls to the minimum, whatever the length") {
  // Vaswani et al., section 5.3: d^-0.5 min(t^-0.5, t w^-1.5) has the peak (d w)^-0.5 at t = w.
  const LrSchedule s{LrSchedule::Kind::kInverseSqrt, 7e-4, 0, 0, 4000, 100};
  const auto paper = [](double t) {
    return 7e-4 * std::sqrt(4000) * std::min(1 / std::sqrt(t), t * std::pow(4000, -1.5));
  };
  for (const int t : {1, 2000, 4000, 4001, 16000, 1000000}) CHECK(s.at(t) == Approx(paper(t)).epsilon(1e-12));
  CHECK(s.at(3999) < s.at(4000));
  CHECK(s.at(16000) == Approx(3.5e-4));
  const LrSchedule low{LrSchedule::Kind::kInverseSqrt, 1.0, 0.25, 0.0, 10, 0};
  CHECK(low.at(160) == 0.25);
  CHECK(low.at(100000) == 0.25);
  const LrSchedule without_warmup{LrSchedule::Kind::kInverseSqrt, 1.0, 0.0, 0.0, 0, 0};
  CHECK(without_warmup.at(0) == 1.0);
  CHECK(without_warmup.at(1) == 1.0);
  CHECK(without_warmup.at(4) == 0.5);
}

TEST_CASE("optim: linear and square-root decays run from the end of the warmup to the minimum") {
  const LrSchedule linear{LrSchedule::Kind::kLinear, 1.0, 0.2, 0.0, 10, 110};
  CHECK(linear.at(10) == 1.0);
  CHECK(linear.at(35) == Approx(0.8));
  CHECK(linear.at(110) == 0.2);
  const LrSchedule root{LrSchedule::Kind::kSqrt, 1.0, 0.2, 0.0, 10, 110};
  CHECK(root.at(10) == 1.0);
  CHECK(root.at(35) == Approx(0.6));  // half of the way after a quarter of the steps
  CHECK(root.at(500) == 0.2);
}

TEST_CASE("optim: a cooldown decays in the last steps and leaves the others at the peak") {
  using Kind = LrSchedule::Kind;
  for (const Kind kind : {Kind::kCosine, Kind::kLinear, Kind::kSqrt}) {
    const LrSchedule s{kind, 1.0, 0.1, 0.0, 10, 110, 20};
    const LrSchedule decay{kind, 1.0, 0.1, 0.0, 0, 20};
    CHECK(s.has_cooldown());
    CHECK(s.at(5) == 0.5);
    for (const int t : {10, 50, 89, 90}) CHECK(s.at(t) == 1.0);
    for (const int t : {91, 100, 109, 110, 300}) CHECK(s.at(t) == decay.at(t - 90));
    CHECK(s.at(91) < 1.0);
  }
  const LrSchedule long_one{Kind::kLinear, 1.0, 0.0, 0.0, 10, 110, 1000};  // at most what the warmup leaves
  CHECK(long_one.at(60) == 0.5);
  CHECK_FALSE(LrSchedule{Kind::kConstant}.has_cooldown());
  CHECK_FALSE(LrSchedule{Kind::kCosineFromStart}.has_cooldown());
}

TEST_CASE("optim: a decay that ends with the warmup goes straight to the minimum") {
  const LrSchedule s{LrSchedule::Kind::kCosine, 1.0, 0.25, 0.0, 10, 10};
  CHECK(s.at(9) == Approx(0.9));
  CHECK(s.at(10) == 0.25);
}
