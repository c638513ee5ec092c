#include "train/base/measure/row.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace moh;

TEST_CASE("bench: a row is an object of JSON and a line of a table") {
  Row row;
  row.add("op", "softmax \"x\"");
  row.add("tokens", 16, {"tokens"});
  row.add("causal", true);
  row.show({"mask", {}, -6}, "full");
  row.add("share", 0.25, {"share", Row::percent(1), 7});
  row.add("ms", 1.23456, {"forward ms", Row::fixed(3)});
  row.add("active", 0.5, {"active", Row::significant(3)});
  row.show({"note", {}, -8}, "end");
  CHECK(row.json() ==
        "{\"op\":\"softmax "
        "\\\"x\\\"\",\"tokens\":16,\"causal\":true,\"share\":0.25,\"ms\":1.23456,\"active\":0.5}"
        "\n");
  CHECK(row.table_head() == "tokens  mask      share  forward ms  active  note\n");
  CHECK(row.table_line() == "    16  full      25.0%       1.235     0.5  end\n");
}

TEST_CASE("bench: a row's numbers that are not finite are null, and long texts widen their cell") {
  Row row;
  row.add("rate", std::numeric_limits<double>::infinity());
  row.add("name", "longer than its title", {"name"});
  CHECK(row.json() == "{\"rate\":null,\"name\":\"longer than its title\"}\n");
  CHECK(row.table_line() == "longer than its title\n");
}
