#include "train/optim/lr_schedule.h"

#include <catch2/catch.hpp>

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

TEST_CASE("optim: a constant rate has a warmup, too, and no warmup starts at the peak") {
  const LrSchedule s{LrSchedule::Kind::kConstant, 1.0, 0.1, 0.0, 4, 8};
  CHECK(s.at(2) == Approx(0.5));
  CHECK(s.at(4) == 1.0);
  CHECK(s.at(100) == 1.0);
  CHECK(LrSchedule{LrSchedule::Kind::kCosine, 1.0, 0.0, 0.0, 0, 10}.at(0) == 1.0);
}

TEST_CASE("optim: a decay that ends with the warmup goes straight to the minimum") {
  const LrSchedule s{LrSchedule::Kind::kCosine, 1.0, 0.25, 0.0, 10, 10};
  CHECK(s.at(9) == Approx(0.9));
  CHECK(s.at(10) == 0.25);
}
