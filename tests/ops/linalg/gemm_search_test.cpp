#include "ops/linalg/gemm_search.h"

#include <catch2/catch.hpp>

using moh::fastest_of;

TEST_CASE("gemm search: the shortest time wins, the first of equals, and who refuses is left out") {
  const std::vector<std::optional<double>> times = {3.0, std::nullopt, 1.0, 2.0, 1.0};
  const auto fastest = fastest_of(times.size(), 3, [&](std::size_t i) { return times[i]; });
  REQUIRE(fastest.has_value());
  CHECK(fastest->candidate == 2);
  CHECK_FALSE(fastest_of(0, 3, [](std::size_t) { return std::optional(1.0); }).has_value());
  CHECK_FALSE(fastest_of(4, 3, [](std::size_t) { return std::optional<double>(); }).has_value());
}

TEST_CASE("gemm search: the first run of each does not count, and one slow run does no harm") {
  std::vector<std::size_t> order;
  const std::vector<std::vector<double>> times = {{1, 5, 5, 5}, {9, 4, 7, 4}, {9, 6, 6, 6}};
  std::vector<std::size_t> runs(3);
  const auto fastest = fastest_of(3, 3, [&](std::size_t i) {
    order.push_back(i);
    return std::optional(times[i][runs[i]++]);
  });
  REQUIRE(fastest.has_value());
  CHECK(fastest->candidate == 1);
  CHECK(fastest->seconds == 4);
  CHECK(fastest->first_seconds == 5);
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
}
