#include "tests/support/skip.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/support/own_case.h"

using namespace moh::test;

// Hidden cases, each run in a process of its own by the case below.

TEST_CASE("probe: skipped", "[.]") {
  CHECK(true);
  MOH_SKIP("no machine");
}

TEST_CASE("probe: skipped in a call", "[.]") {
  throw_skip("no machine");
}

TEST_CASE("probe: skipped in a call, in each section", "[.]") {
  SECTION("first") {
    throw_skip("no machine");
  }
  SECTION("second") {
    throw_skip("no machine");
  }
}

TEST_CASE("probe: failed beside a section that skips", "[.]") {
  SECTION("first") {
    throw_skip("no machine");
  }
  SECTION("second") {
    CHECK(false);
  }
}

TEST_CASE("probe: all parts left out", "[.]") {
  leave_out("first", "no machine");
  leave_out("second", "no machine");
}

TEST_CASE("probe: a part left out", "[.]") {
  leave_out("first", "no machine");
  CHECK(true);
}

TEST_CASE("probe: failed, then skipped", "[.]") {
  CHECK(false);
  MOH_SKIP("no machine");
}

TEST_CASE("probe: failed, then skipped in a call", "[.]") {
  CHECK(false);
  throw_skip("no machine");
}

TEST_CASE("probe: failed beside a part left out", "[.]") {
  leave_out("first", "no machine");
  CHECK(false);
}

TEST_CASE("probe: another error after a skip", "[.]") {
  skip_test_case("no machine");
  throw std::runtime_error("another error");
}

TEST_CASE("skip: a case says so that cannot run, and none that failed") {
  const auto says_skipped = [](const std::string& name) {
    return output_of_own_case("probe: " + name).find("moh test skipped: no machine\n") != std::string::npos;
  };
  CHECK(says_skipped("skipped"));
  CHECK(says_skipped("skipped in a call"));
  CHECK(says_skipped("skipped in a call, in each section"));
  CHECK(says_skipped("all parts left out"));
  CHECK_FALSE(says_skipped("a part left out"));
  CHECK_THAT(output_of_own_case("probe: a part left out"),
             Catch::Contains("moh test left out: first: no machine\n"));
  CHECK_FALSE(says_skipped("failed, then skipped"));
  CHECK_FALSE(says_skipped("failed, then skipped in a call"));
  CHECK_FALSE(says_skipped("failed beside a part left out"));
  CHECK_FALSE(says_skipped("failed beside a section that skips"));
  CHECK_FALSE(says_skipped("another error after a skip"));
}
