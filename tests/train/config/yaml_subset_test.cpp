#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "tests/train/trainer/config/config_folder.h"

// YAML that is refused before any key has a meaning. Messages are compared in full: they are what the user
// sees.
namespace moh {
namespace {

struct YamlCase {
  std::string text;
  std::string message;
};

void check_documents(const std::vector<YamlCase>& cases) {
  for (const YamlCase& c : cases) {
    INFO(c.text);
    CHECK(error_of(c.text) == c.message);
  }
}

TEST_CASE("config yaml: a key is given once") {
  check_documents({
      {"seed: 1\ntrain:\n  steps: 5\n  steps: 6\n",
       "a.yaml:4:3: train.steps: expected each key once, found it a second time (first at a.yaml:3:3); "
       "keep one of the two"},
      {"train: {steps: 5}\ntrain: {batch_size: 6}\n",
       "a.yaml:2:1: train: expected each key once, found it a second time (first at a.yaml:1:1); "
       "keep one of the two"},
      {"train: {steps: 5, \"steps\": 5}\n",
       "a.yaml:1:19: train.steps: expected each key once, found it a second time (first at a.yaml:1:9); "
       "keep one of the two"},
  });
}

TEST_CASE("config yaml: a key is a name") {
  check_documents({
      {"train:\n  [a]: 5\n", "a.yaml:2:3: train: expected a name as key, found a list"},
      {"? {a: 1}\n: 5\n", "a.yaml:1:3: expected a name as key, found a map"},
      {"null: 5\n", "a.yaml:1:1: expected a name as key, found nothing"},
      {"train:\n  <<: {steps: 5}\n",
       "a.yaml:2:3: train: expected a key, found the merge key <<; write the keys out, or share them through "
       "include"},
  });
}

TEST_CASE("config yaml: no anchors, aliases and tags") {
  check_documents({
      {"train: &common\n  steps: 5\n",
       "a.yaml:1:8: train: expected a value, found the anchor &common; remove it; what several files share "
       "belongs into one that they include"},
      {"train:\n  steps: &n 5\n  batch_size: *n\n",
       "a.yaml:2:10: train.steps: expected a value, found the anchor &n; remove it; what several files share "
       "belongs into one that they include\n"
       "a.yaml:3:15: train.batch_size: expected a value, found an alias (*); write the value out, or share "
       "it "
       "through include"},
      {"seed: !!int \"5\"\n",
       "a.yaml:1:7: seed: expected a value without a tag, found the tag tag:yaml.org,2002:int; remove it; "
       "the "
       "key decides the type"},
      {"data: !mine {train: x}\n",
       "a.yaml:1:7: data: expected a value without a tag, found the tag !mine; remove it; the key decides "
       "the "
       "type"},
  });
}

TEST_CASE("config yaml: one document, which is a map") {
  const std::string second = "expected one YAML document, found a second one; put it into a file of its own";
  check_documents({
      {"seed: 1\n---\nseed: 2\n", "a.yaml:2:1: " + second},
      {"seed: 1\n...\nseed: 2\n", "a.yaml:3:1: " + second},
      {"seed: 1\n---\n", "a.yaml:2:1: " + second},
      // yaml-cpp makes empty documents of the commas without ever moving on.
      {"[],,,,", "a.yaml:1:1: expected keys with values, found a list\na.yaml:1:3: " + second},
      {"", "a.yaml: expected keys with values, found an empty file"},
      {"# nothing but a comment\n", "a.yaml: expected keys with values, found an empty file"},
      {"---\n", "a.yaml: expected keys with values, found an empty file"},
      {"just words\n", "a.yaml:1:1: expected keys with values, found just words"},
      {"- a\n- b\n", "a.yaml:1:1: expected keys with values, found a list"},
  });
  CHECK(load_text("---\nseed: 7\n").seed == 7);
  CHECK(load_text("seed: 7\n...\n").seed == 7);
}

TEST_CASE("config yaml: tabs do not indent, and do not hide other mistakes") {
  const std::string advice = "; YAML allows no tab here; indent with two spaces";
  check_documents({
      {"train:\n\tsteps: x\n\tbatch_size: 2\n",
       "a.yaml:2:1: expected spaces as indentation, found a tab (on 2 lines)" + advice +
           "\na.yaml:2:9: train.steps: expected an integer of at least 1 (steps), found x"},
      {"train:\n  \tsteps: 5\n", "a.yaml:2:3: expected spaces as indentation, found a tab" + advice},
      {"train:\n  steps: 5\n\tbatch_size: 2\n",
       "a.yaml:3:1: expected spaces as indentation, found a tab" + advice},
  });
  CHECK(load_text("seed:\t5\t# a tab between tokens is fine\n\t# and before a comment\n\t\n").seed == 5);
}

TEST_CASE("config yaml: printable text in UTF-8") {
  using namespace std::string_literals;
  check_documents({
      {"seed: 1\nname: \xff\n", "a.yaml:2:7: expected text in UTF-8, found the byte 0xff"},
      {"name: \xc0\xaf\n", "a.yaml:1:7: expected text in UTF-8, found the byte 0xc0"},
      {"name: \xe0\x80\xaf\n", "a.yaml:1:7: expected text in UTF-8, found the byte 0xe0"},
      {"name: \xed\xa0\x80\n", "a.yaml:1:7: expected text in UTF-8, found the byte 0xed"},
      {"name: \xf4\x90\x80\x80\n", "a.yaml:1:7: expected text in UTF-8, found the byte 0xf4"},
      {"name: \xc3", "a.yaml:1:7: expected text in UTF-8, found the byte 0xc3"},
      {"\xff\xfes\0e\0"s, "a.yaml:1:1: expected text in UTF-8, found the byte 0xff"},
      {"se\0ed: 1\n"s, "a.yaml:1:3: expected printable text, found the control character 0x00"},
      {"seed: 1\x04\nseed: 2\n", "a.yaml:1:8: expected printable text, found the control character 0x04"},
      {"seed: 1\rtrain: 2\n", "a.yaml:1:8: expected printable text, found the control character 0x0d"},
  });
  CHECK(load_text("\xef\xbb\xbfseed: 3\r\ntrain:\r\n  steps: 4\r\n").train.steps == 4);
  CHECK(load_text("output: {dir: \xc3\xa9t\xc3\xa9/\xf0\x9f\x8e\xad}\n").output.dir ==
        "\xc3\xa9t\xc3\xa9/\xf0\x9f\x8e\xad");
}

TEST_CASE("config yaml: columns count characters") {
  CHECK(error_of("{output: {dir: \xc3\xa9\xc3\xa9}, seed: x}\n") ==
        "a.yaml:1:27: seed: expected an integer of at least 0, found x");
}

TEST_CASE("config yaml: syntax errors have a place and a way out") {
  const auto syntax_error = [](const std::string& message, const std::string& advice) {
    return "expected valid YAML, found a syntax error (" + message + ")" +
           (advice.empty() ? "" : "; " + advice);
  };
  const std::string colon = "quote a text that contains ': ', or check the indentation";
  check_documents({
      {"train: steps: 5\n", "a.yaml:1:13: " + syntax_error("illegal map value", colon)},
      {"train:\n  steps: 5\n    batch_size: 6\n", "a.yaml:3:15: " + syntax_error("illegal map value", colon)},
      {"seed: 1\nmodel: {layers: 5\n",
       "a.yaml:2:8: " + syntax_error("end of map flow not found", "a } or a closing quote is missing")},
      {"data:\n  train: [a, b\n",
       "a.yaml:2:10: " + syntax_error("end of sequence flow not found", "a ] or a closing quote is missing")},
      {"sample: {prompt: 'x}\n",
       "a.yaml:1:9: " + syntax_error("end of map flow not found", "a } or a closing quote is missing") +
           "\na.yaml:1:18: sample.prompt: expected a closing quote, found the end of the text"},
      {"sample:\n  prompt: 'x", "a.yaml:2:13: " + syntax_error("illegal EOF in scalar", "close the quotes")},
      // yaml-cpp closes these itself.
      {"sample:\n  prompt: 'it''s\n",
       "a.yaml:2:11: sample.prompt: expected a closing quote, found the end of the text"},
      {"sample:\n  prompt: \"\\\"\n",
       "a.yaml:2:11: sample.prompt: expected a closing quote, found the end of the text"},
      {"sample:\n  prompt: @home\n",
       "a.yaml:2:11: " + syntax_error("unknown token", "quote a text that begins with a special character")},
      {"train:\n    steps: 5\n  batch_size: 6\n",
       "a.yaml:3:3: " + syntax_error("end of map not found", "check the indentation")},
      {"%YAML 3.0\n---\nseed: 1\n", "a.yaml:1:1: " + syntax_error("YAML major version too large", "")},
      {"seed: *no\n",
       "a.yaml:1:7: " + syntax_error("the referenced anchor is not defined", "write the value out")},
  });
}

TEST_CASE("config yaml: what stands before a syntax error is checked too, what follows is not missed") {
  ConfigFolder folder;
  folder.write("a.yaml", "seed: x\ntrain:\n  steps: [1\ndata: {train: y}\n");
  CHECK(folder.error("a.yaml") ==
        "a.yaml:1:7: seed: expected an integer of at least 0, found x\n"
        "a.yaml:3:10: expected valid YAML, found a syntax error (end of sequence flow not found); "
        "a ] or a closing quote is missing");
}

TEST_CASE("config yaml: deep nesting and large files are refused") {
  const std::string deep = "expected at most 16 levels of nesting, found more";
  CHECK_THAT(error_of("seed: " + std::string(100000, '[')), Catch::EndsWith(deep));
  CHECK_THAT(error_of(std::string(100000, '{')), Catch::EndsWith(deep));
  std::string block;
  for (int i = 0; i < 5000; ++i) block += "- ";
  CHECK(error_of(block) == "a.yaml:1:33: " + deep);
  CHECK(error_of(std::string(1 << 20, '#')) ==
        "a.yaml: expected a config of at most 256 KiB, found a larger file");
}

}  // namespace
}  // namespace moh
