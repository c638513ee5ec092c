#include "train/families/language/generate_text.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "core/error.h"

using namespace moh;

namespace {

const std::vector<float> kLogits = {0.0F, std::log(2.0F), std::log(5.0F),
                                    std::log(2.0F)};  // 0.1, 0.2, 0.5, 0.2

std::map<std::int32_t, int> counts(const PickOptions& options, int draws = 4000) {
  TokenPicker picker(options, {1, 2});
  std::map<std::int32_t, int> found;
  for (int i = 0; i < draws; ++i) ++found[picker.pick(kLogits)];
  return found;
}

}  // namespace

TEST_CASE("generate: temperature 0 takes the most probable token, the lowest id among equals") {
  TokenPicker picker({.temperature = 0}, {1, 2});
  CHECK(picker.pick(kLogits) == 2);
  CHECK(picker.pick(std::vector<float>{1.0F, 3.0F, 3.0F}) == 1);
}

TEST_CASE("generate: draws follow the distribution, sharper at low temperature") {
  const auto plain = counts({});
  CHECK(plain.at(0) == Approx(400).margin(80));
  CHECK(plain.at(2) == Approx(2000).margin(130));
  const auto sharp = counts({.temperature = 0.5});  // probabilities squared: 1 4 25 4 of 34
  CHECK(sharp.at(2) == Approx(4000 * 25.0 / 34).margin(130));
}

TEST_CASE("generate: top-k and top-p leave out the tail") {
  CHECK(counts({.top_k = 1}).size() == 1);
  const auto two = counts({.top_k = 2});
  CHECK(two.size() == 2);
  CHECK(two.count(1) == 1);                  // of the equal ids 1 and 3, the lower
  const auto half = counts({.top_p = 0.5});  // token 2 alone holds it
  CHECK(half.size() == 1);
  CHECK(counts({.top_p = 0.6}).size() == 2);
  CHECK(counts({.top_p = 1.0}).size() == 4);
}

TEST_CASE("generate: the same key draws the same tokens, another key others") {
  const auto sequence = [](std::uint64_t seed) {
    TokenPicker picker({}, {seed, 2});
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(picker.pick(kLogits));
    return ids;
  };
  CHECK(sequence(1) == sequence(1));
  CHECK(sequence(1) != sequence(2));
}

TEST_CASE("generate: NaN logits are never drawn, and infinities stay in their place") {
  TokenPicker picker({}, {1, 2});
  const float nan = std::nanf(""), inf = HUGE_VALF;
  for (int i = 0; i < 20; ++i) CHECK(picker.pick(std::vector<float>{nan, 0.0F, -inf}) == 1);
  CHECK_THROWS_AS(picker.pick(std::vector<float>{nan, nan}), NumericError);
}

TEST_CASE("generate: options out of range are refused") {
  CHECK_THROWS_WITH(TokenPicker({.top_p = 0.0}, {}),
                    "generate: top_p: expected above 0, up to 1, found 0.000000");
  CHECK_THROWS_AS(TokenPicker({.temperature = -1}, {}), ValueError);
  CHECK_THROWS_AS(TokenPicker({.temperature = std::nan("")}, {}), ValueError);
  CHECK_THROWS_AS(TokenPicker({.top_k = -1}, {}), ValueError);
}
