#include "train/heads/analyze/token_heads.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"

using namespace moh;

TEST_CASE("analyze: heads of chosen tokens, counted by hand") {
  TokenHeads table({7, 2, 9}, 10, std::array<std::int64_t, 2>{2, 3});
  const std::vector<std::int64_t> tokens = {7, 1, 7, 2};
  table.add(0, tokens, std::vector<std::uint8_t>{1, 0, 1, 1, 1, 1, 0, 1});
  table.add(1, tokens, std::vector<std::uint8_t>{1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1});
  table.add(0, tokens, std::vector<std::uint8_t>{1, 1, 1, 1, 1, 0, 0, 0});
  CHECK(table.count(0, 0) == 4);
  CHECK(table.load(0, 0) == std::vector<double>{1, 0.5});
  CHECK(table.count(0, 1) == 2);
  CHECK(table.load(0, 1) == std::vector<double>{0.5, 0.5, 0});
  CHECK(table.load(1, 0) == std::vector<double>{0, 0.5});
  CHECK(table.load(1, 1) == std::vector<double>{0, 0, 1});
  CHECK(table.count(2, 0) == 0);
  CHECK(std::isnan(table.load(2, 1)[0]));
}

TEST_CASE("analyze: a token is chosen once and lies in the vocabulary") {
  const std::array<std::int64_t, 1> heads = {2};
  CHECK_THROWS_AS(TokenHeads({3, 3}, 10, heads), InternalError);
  CHECK_THROWS(TokenHeads({10}, 10, heads));
  TokenHeads table({3}, 10, heads);
  CHECK_THROWS(table.add(0, std::array<std::int64_t, 1>{10}, std::array<std::uint8_t, 2>{1, 1}));
}
