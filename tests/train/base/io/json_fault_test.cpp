#include "train/base/io/json_fault.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "train/base/io/error_words.h"

using namespace moh;

namespace {

std::string words(const std::string& text, bool one_line = true) {
  CHECK_FALSE(nlohmann::json::accept(text));
  return find_json_fault(text).words(one_line);
}

}  // namespace

TEST_CASE("json fault: numbers that JSON does not have") {
  CHECK(words(R"({"text": "a", "score": NaN})") == "column 24: NaN at the key score");
  CHECK(find_json_fault(R"({"a": NaN})").fix == "JSON has no such number; write null");
  CHECK(words(R"({"a": [1, -Infinity]})") == "column 11: -Infinity at the key a[1]");
  CHECK(words(R"({"a": {"b": nan}})") == "column 13: nan at the key a.b");
  CHECK(words(R"({"a": 01})") == "column 7: 01 at the key a (expected a number of JSON)");
  CHECK(words(R"({"a": .5})") == "column 7: .5 at the key a (expected a value)");
  CHECK(words(R"({"a": 1.})") == "column 7: 1. at the key a (expected a number of JSON)");
  CHECK(words(R"({"a": 1e})") == "column 7: 1e at the key a (expected a number of JSON)");
  CHECK(find_json_fault(R"({"a": 1e999})").fix == "it is too large");
  CHECK(find_json_fault(R"({"a": None})").fix == "JSON writes null");
  CHECK(find_json_fault(R"({"a": True})").fix == "JSON writes true and false");
}

TEST_CASE("json fault: characters of a text") {
  CHECK(words(R"({"text": "a\ud83db"})") == "column 12: a lone surrogate at the key text, \\ud83d");
  CHECK(words(R"({"text": "\ude00"})") == "column 11: a lone surrogate at the key text, \\ude00");
  CHECK(words(R"({"text": "\ud83d\ud83d"})") == "column 11: a lone surrogate at the key text, \\ud83d");
  CHECK(find_json_fault(R"({"text": "\ud83d\ude00"})").found == "nothing wrong");
  CHECK(words("{\"text\": \"a\tb\"}") == "column 12: the raw control character U+0009 at the key text");
  CHECK(find_json_fault("{\"text\": \"a\tb\"}").fix == "write \\t");
  CHECK(words("{\"text\": \"a\x01\"}") == "column 12: the raw control character U+0001 at the key text");
  CHECK(words("{\"text\": \"a\xff\"}") == "column 12: the byte 0xff at the key text (expected UTF-8)");
  CHECK(words(R"({"text": "\x41"})") == "column 11: '\\x' at the key text (expected an escape of JSON)");
  CHECK(words(R"({"text": "\u12"})") ==
        "column 11: '\\u12\"}' at the key text (expected four hexadecimal digits after \\u)");
  // Columns are characters, not bytes.
  CHECK(words("{\"text\": \"\u00e9\u4e2d\", \"b\": NaN}") == "column 21: NaN at the key b");
}

TEST_CASE("json fault: structure") {
  CHECK(words("") == "column 1: the end of the text (expected a value)");
  CHECK(words(R"({"a": )") == "column 7: the end of the text at the key a (expected a value)");
  CHECK(words(R"({"a": "b)") ==
        "column 9: the end of the text at the key a (expected a \" at the end of a text)");
  CHECK(words(R"({"a": 1,})") == "column 9: '}' (expected a key after the comma)");
  CHECK(words(R"({"a": [1,]})") == "column 10: ']' at the key a[1] (expected an item after the comma)");
  CHECK(words(R"({"a" 1})") == "column 6: 1 (expected ':' after the key a)");
  CHECK(words(R"({"a": 1 "b": 2})") == "column 9: '\"' (expected ',' or '}')");
  CHECK(words(R"({'a': 1})") == "column 2: ''' (expected a key in double quotes)");
  CHECK(words(R"({"a": 1} {"a": 2})") == "column 10: more: '{' (expected the end of the text)");
  CHECK(words("{\"a\": 1,\n \"b\": nul}", false) == "line 2, column 7: nul at the key b (expected a value)");
}

TEST_CASE("json fault: each text that the JSON library refuses has one, and no other") {
  const std::string whole = R"({"a": [1, -2.5e3, "x\n\u00e9"], "b": {"c": null, "d": true}})";
  CHECK(find_json_fault(whole).found == "nothing wrong");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char c : std::string("\"{}[],:x0-\\ \t\x01\xff")) {
      std::string changed = whole;
      changed[at] = c;
      INFO(changed);
      CHECK((find_json_fault(changed).found == "nothing wrong") == nlohmann::json::accept(changed));
    }
    CHECK(find_json_fault(whole.substr(0, at)).found != "nothing wrong");
  }
  CHECK(find_json_fault(std::string(100000, '[')).found.find("512") != std::string::npos);
}

TEST_CASE("error words: exceptions of libraries in words of a user") {
  try {
    nlohmann::json::parse("5").get<std::string>();
  } catch (const std::exception& error) {
    CHECK(error_words(error) == "JSON: type must be string, but is number");
  }
  CHECK(error_words(std::bad_alloc()) == "out of memory");
  CHECK(error_words(std::filesystem::filesystem_error("status", "/a/b",
                                                      std::make_error_code(std::errc::permission_denied))) ==
        "/a/b: Permission denied");
  CHECK(error_words(std::runtime_error("a: expected b, found c")) == "a: expected b, found c");
}
