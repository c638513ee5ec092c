#include "train/base/io/input_file.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace moh;
using Catch::Contains;

namespace {

std::string read_object(const std::string& text, InputKind kind = InputKind::kCheckpoint) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.json";
  std::ofstream(path, std::ios::binary) << text;
  return read_json_object(path, kind, 1000, 4);
}

std::string refused_object(const std::string& text) {
  return message_of<CheckpointError>([&] { read_object(text); });
}

}  // namespace

TEST_CASE("json text: an object comes through as it is") {
  for (const char* text :
       {"{}", R"({"a": [1, {"a": "é\ud83d\ude00"}], "b": {"a": null, "c": [1e300, -0.5, true]}})"})
    CHECK(read_object(text) == text);
  CHECK(read_object(" {\"a\": [[[]]]}\n") == " {\"a\": [[[]]]}\n");
}

TEST_CASE("json text: what a parser lets through, or builds without bound, is refused") {
  CHECK_THAT(refused_object(R"({"a": 1, "b": 2, "a": 3})"),
             Contains("a: expected this key once, found it twice"));
  CHECK_THAT(refused_object(R"({"b": {"c": 1, "d": {"c": 1}, "c": 2}})"),
             Contains("c: expected this key once"));
  CHECK_THAT(refused_object(R"({"a": [[[[]]]]})"), Contains("expected at most 4 levels, found more"));
  CHECK_THAT(refused_object(std::string("{}\0", 3)), Contains("a NUL byte"));
  for (const char* value : {"1", "null", "\"text\"", "[]", "true"})
    CHECK_THAT(refused_object(value), Contains("expected a JSON object"));
  for (const char* broken :
       {"", "{", "{}}", "{} x", "{\"a\": nan}", "{\"\xff\": 1}", "{\"a\": 1e400}", "{'a': 1}"})
    CHECK_THAT(refused_object(broken), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_object("{\"a\": \"" + std::string(1000, 'x') + "\"}"), Contains("1000"));
  CHECK_THROWS_AS(read_object("[]", InputKind::kData), DataError);
}
