#include "train/apps/serve/token_logprobs.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"

using namespace moh;

TEST_CASE("serve: log-probabilities are of the softmax over all tokens") {
  const std::vector<float> logits = {0.0F, std::log(2.0F), std::log(5.0F), std::log(2.0F)};  // of 10
  const TokenLogprobs scores = logprobs_of(logits, 3, 3);
  CHECK(scores.id == 3);
  CHECK(*scores.logprob == Approx(std::log(0.2)).epsilon(1e-6));
  REQUIRE(scores.top.size() == 3);
  CHECK(scores.top[0].id == 2);
  CHECK(scores.top[1].id == 1);  // of the equal ones the lower id
  CHECK(scores.top[2].id == 3);
  CHECK(scores.top[0].logprob == Approx(std::log(0.5)).epsilon(1e-6));
  // One token has one value: clients compare for equality.
  CHECK(scores.top[2].logprob == *scores.logprob);
  CHECK(logprobs_of(logits, 2, 1).top[0].logprob == *logprobs_of(logits, 2, 0).logprob);
  CHECK(logprobs_of(logits, 0, 0).top.empty());
  CHECK(logprobs_of(logits, 0, 99).top.size() == 4);
}

TEST_CASE("serve: log-probabilities are finite and do not overflow") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {-kInfinity, 1e30F, -1e30F};
  CHECK(*logprobs_of(logits, 1, 0).logprob == 0.0F);
  CHECK(*logprobs_of(logits, 0, 0).logprob == std::numeric_limits<float>::lowest());
  CHECK(std::isfinite(*logprobs_of(logits, 2, 3).logprob));
  CHECK_THROWS_AS(logprobs_of(std::vector<float>{0.0F, std::nanf("")}, 0, 0), NumericError);
  CHECK_THROWS_AS(logprobs_of(std::vector<float>{kInfinity, 0.0F}, 0, 0), NumericError);
  CHECK_THROWS_AS(logprobs_of(std::vector<float>{-kInfinity, -kInfinity}, 0, 0), NumericError);
}

TEST_CASE("serve: log-probabilities of a large vocabulary are exact to float32") {
  std::vector<float> logits(100000);
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(std::sin(static_cast<double>(i)) * 5);
    sum += std::exp(static_cast<double>(logits[i]));
  }
  for (const TokenId id : {0, 7, 99999}) {
    const double exact = static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(sum);
    CHECK(static_cast<double>(*logprobs_of(logits, id, 0).logprob) == Approx(exact).epsilon(1e-7));
  }
}
