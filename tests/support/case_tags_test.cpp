#include "tests/support/case_tags.h"

#include <catch2/catch.hpp>

#include "tests/support/every_isa.h"
#include "tests/support/own_case.h"
#include "tests/support/shared_data.h"

using namespace moh::test;

// Hidden cases, each run in a process of its own by the case below.

TEST_CASE("probe: shared data without a tag", "[.]") {
  shared_data();
}

TEST_CASE("probe: every instruction set without a tag", "[.]") {
  every_isa();
}

TEST_CASE("probe: tagged", "[.][shared][every_isa]") {
  CHECK_FALSE(every_isa().empty());
  shared_data();
}

TEST_CASE("case tags: what is used without its tag is a failure") {
  const auto output_of = [](const std::string& name) {
    return output_of_own_case("probe: " + name, "MOH_SHARED=/ MOH_CPU_ISA=");
  };
  CHECK_THAT(output_of("shared data without a tag"), Catch::Contains("expected the tag [shared]"));
  CHECK_THAT(output_of("every instruction set without a tag"),
             Catch::Contains("expected the tag [every_isa]"));
  CHECK_THAT(output_of("tagged"), Catch::Contains("All tests passed"));
}
