#include "train/config/number_text.h"

#include <catch2/catch.hpp>
#include <limits>
#include <tuple>

namespace moh::config {
namespace {

TEST_CASE("config numbers: integers are decimal and fit 64 bits") {
  CHECK(parse_integer("0") == 0);
  CHECK(parse_integer("-7") == -7);
  CHECK(parse_integer("+12") == 12);
  CHECK(parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  for (const char* text :
       {"",      "-",     "+",    "010",     "-01", "00", "0x10", "0o7", "0b1",
        "1_000", "1,000", "1e3",  "2.0",     "1.5", " 1", "1 ",   "1k",  "9223372036854775808",
        "++1",   "+-1",   "true", "\xc2\xb2"}) {
    INFO(text);
    CHECK_FALSE(parse_integer(text));
  }
}

TEST_CASE("config numbers: reals are decimal and finite") {
  CHECK(parse_number("1e-4") == 1e-4);
  CHECK(parse_number("3") == 3.0);
  CHECK(parse_number(".5") == 0.5);
  CHECK(parse_number("5.") == 5.0);
  CHECK(parse_number("-1.25E+2") == -125.0);
  CHECK(parse_number("0.1") == 0.1);
  for (const char* text :
       {"",     ".",    "-.",  "e5",       ".e5",   "1e",     "1e+",   "010",   "01.5", ".nan", "nan",
        ".inf", "-inf", "inf", "infinity", "1e999", "1e-999", "0x1p3", "1.5.2", "1 5",  "1d3"}) {
    INFO(text);
    CHECK_FALSE(parse_number(text));
  }
}

TEST_CASE("config numbers: written numbers read back to the same value") {
  for (double value :
       {0.0, 1.0, -3.0, 1e-4, 0.1, 0.95, 1e16, 1.0 / 3, 5e-324, 1.7976931348623157e308, 500000.0}) {
    INFO(value);
    CHECK(parse_number(number_text(value)) == value);
  }
  CHECK(number_text(10000) == "10000");
  CHECK(number_text(0.001) == "0.001");
  CHECK(number_text(1e-4) == "1e-4");
  CHECK(number_text(-2.5e-10) == "-2.5e-10");
  CHECK(number_text(1e20) == "1e20");
}

TEST_CASE("config numbers: advice says the number that was meant") {
  const std::tuple<const char*, bool, const char*, const char*> cases[] = {
      {"010", true, "", "write 10"},
      {"0010", true, "", "write 10"},
      {"0x10", true, "", "write 16"},
      {"0o17", true, "", "write 15"},
      {"0b101", true, "", "write 5"},
      {"1_000", true, "", "write 1000"},
      {"1,000,000", true, "", "write 1000000"},
      {"1e4", true, "", "write 10000"},
      {"2.0", true, "", "write 2"},
      {"1.5", true, "", ""},
      {"4M", true, "tokens", "write 4000000"},
      {"2.5k", true, "", "write 2500"},
      {"4Mi", true, "", "write 4194304"},
      {"100B", true, "", "write 100000000000"},
      {"0.1%", false, "", "write 0.001"},
      {"90s", false, "seconds", "write 90"},
      {"2h", false, "seconds", "write 7200"},
      {"5 min", false, "seconds", "write 300"},
      {"2h", false, "steps", ""},
      {"1,5", false, "", ""},
      {"many", true, "", ""},
      {"", true, "", ""},
      {".nan", false, "", ""},
      {"1e400", false, "", ""},
  };
  for (const auto& [text, integer, unit, advice] : cases) {
    INFO(text);
    CHECK(number_advice(text, integer, unit) == advice);
  }
}

}  // namespace
}  // namespace moh::config
