#include "train/families/images/label_names.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace moh {
namespace {

using Catch::Contains;
using Names = std::vector<std::string>;

Names read_names(const std::string& text, std::int64_t classes) {
  const TemporaryFolder folder;
  return read_label_names(ConfigJson(write_file(folder / "config.json", text)), classes);
}

std::string refused_names(const std::string& text, std::int64_t classes) {
  return message_of<CheckpointError>([&] { read_names(text, classes); });
}

TEST_CASE("label names: a list, an object with gaps, or none") {
  CHECK(read_names(R"({"label_names": ["bee", "ant"]})", 2) == Names{"bee", "ant"});
  CHECK(read_names(R"({"label_names": {"2": "cat", "0": "bee"}})", 3) == Names{"bee", "1", "cat"});
  CHECK(read_names(R"({"num_classes": 2})", 2).empty());
  // Names of the head that a model had before.
  CHECK(read_names(R"({"label_names": ["bee"]})", 2).empty());
  CHECK(read_names(R"({"label_names": {"2": "bee"}})", 2).empty());
}

TEST_CASE("label names: what is no name of a class is refused") {
  for (const char* label : {"-1", "1x", "", "99999999999999999999"})
    CHECK_THAT(refused_names(R"({"label_names": {")" + std::string(label) + R"(": "bee"}})", 2),
               Contains("label_names"));
  CHECK_THAT(refused_names(R"({"label_names": ["bee", "a\nb"]})", 2),
             Contains("names without control characters"));
  CHECK_THAT(refused_names(R"({"label_names": ["bee", ""]})", 2),
             Contains("names without control characters"));
  CHECK_THAT(refused_names(R"({"label_names": ["bee", 1]})", 2), Contains("a list of texts"));
  CHECK_THAT(refused_names(R"({"label_names": "bee"})", 2), Contains("label_names"));
}

TEST_CASE("label names: numbers are not worth telling") {
  CHECK_FALSE(say_more_than_numbers(Names{"0", "1"}));
  CHECK_FALSE(say_more_than_numbers(Names()));
  CHECK(say_more_than_numbers(Names{"0", "one"}));
}

}  // namespace
}  // namespace moh
