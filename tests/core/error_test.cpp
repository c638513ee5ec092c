#include "core/error.h"

#include <catch2/catch.hpp>

using namespace moh;

TEST_CASE("error: a message joins where, what, expected, found and the fix") {
  CHECK(error_message("rms_norm", "w", "shape [512]", "[256]") ==
        "rms_norm: w: expected shape [512], found [256]");
  CHECK(error_message("attention", "device cuda", "cpu", "cuda:0", "set device: cpu") ==
        "attention: device cuda: expected cpu, found cuda:0; set device: cpu");
  CHECK(error_message("device", "", "cpu", "gpu") == "device: expected cpu, found gpu");
  CHECK(error_message("", "", "a", "b") == "expected a, found b");
  CHECK(error_message("a\x1b[31m\n\x7f\xC3\xA9", "", "a", "b") ==
        "a\\x1b[31m\\x0a\\x7f\xC3\xA9: expected a, found b");
}

TEST_CASE("error: every kind is an Error and keeps its text") {
  CHECK_THROWS_AS(throw ShapeError("text"), Error);
  CHECK_THROWS_AS(throw CheckpointError("text"), Error);
  CHECK_THROWS_WITH(throw StorageError("disk: full"), "disk: full");
}

TEST_CASE("error: a broken invariant names its condition and place and asks for a report") {
  const int rows = 3;
  CHECK_NOTHROW([&] { MOH_CHECK(rows == 3, "rows"); }());
  const auto broken = [&] { MOH_CHECK(rows == 4, "four rows are needed"); };
  CHECK_THROWS_AS(broken(), InternalError);
  CHECK_THROWS_WITH(broken(), Catch::Contains("error_test.cpp:") && Catch::Contains("four rows are needed") &&
                                  Catch::Contains("(rows == 4)") && Catch::Contains("report this as a bug"));
}

TEST_CASE("error: MOH_DCHECK checks in debug and sanitizer builds only") {
  bool evaluated = false;
  const auto check = [&] { MOH_DCHECK((evaluated = true, false), "inner loop"); };
#ifdef MOH_DEBUG_CHECKS
  CHECK_THROWS_AS(check(), InternalError);
  CHECK(evaluated);
#else
  CHECK_NOTHROW(check());
  CHECK_FALSE(evaluated);
#endif
}
