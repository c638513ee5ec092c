#include "train/apps/watch/braille_chart.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace moh::watch;

TEST_CASE("watch: curves in braille patterns") {
  const std::vector<std::vector<Point>> rising = {{{0, 0.0F}, {3, 3.0F}}};
  const std::vector<std::string> lines = braille_chart(rising, {.columns = 9 + 8, .rows = 3});
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "  3.000 ┤    ⢀⡠⠔⠊");
  CHECK(lines[1] == "  0.000 ┤⣀⡠⠔⠊⠁   ");
  CHECK(lines[2] == "         step 0 3");
  CHECK(braille_chart({}, {}) == std::vector<std::string>{"no records yet"});
}

TEST_CASE("watch: curves in colour, and of one value") {
  const std::vector<std::vector<Point>> flat = {{{1, 2.0F}}, {{1, 2.0F}, {2, 2.0F}}};
  const std::vector<std::string> lines = braille_chart(flat, {.columns = 30, .rows = 4, .color = true});
  REQUIRE(lines.size() == 4);
  std::string all;
  for (const std::string& line : lines) all += line;
  CHECK(all.find(curve_color(1)) != std::string::npos);
  CHECK(all.find(kEndColor) != std::string::npos);
}
