#include "train/tasks/language/benchmark/text_template.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "train/tasks/language/benchmark/json_value.h"
#include "train/tasks/language/benchmark/text_regex.h"

using namespace moh;

namespace {

const FieldValue& record() {
  static const FieldValue value = parse_json_value(
      R"({"question": " What? ", "number": 7, "yes": true, "none": null, "text": "The cat sat on the mat",
          "sentence": "Ann saw _ there.", "ctx_b": "HE ran", "options": ["red", "green"],
          "choices": {"text": ["a", "b", "c"], "label": ["1", "2", "3"]}, "key": "3",
          "nested": [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}], "targets": {"t1": 1, "t2": 0}})",
      "record");
  return value;
}

std::string text(std::string_view form) {
  return TextTemplate(form).text(record(), "file:3");
}

/// A list as texts with commas in between.
std::string list(std::string_view form) {
  const FieldValue value = TextTemplate(form).value(record(), "file:3");
  std::string joined;
  for (const FieldValue& item : value.items) joined += (joined.empty() ? "" : ",") + item.text;
  return value.kind == FieldValue::Kind::kList ? joined : "no list";
}

void check_refused(std::string_view form, const std::string& message) {
  INFO(form);
  CHECK_THROWS_WITH(TextTemplate(form), Catch::Contains(message));
  CHECK_THROWS_AS(TextTemplate(form), ConfigError);
}

void check_fails(std::string_view form, const std::string& message) {
  INFO(form);
  CHECK_THROWS_WITH(text(form), Catch::Contains(message));
  CHECK_THROWS_AS(text(form), DataError);
}

}  // namespace

TEST_CASE("benchmark: templates put a record's values into text") {
  CHECK(text("").empty());
  CHECK(text("no field, one { and one }") == "no field, one { and one }");
  CHECK(text("Question:{{question}}\nAnswer:") == "Question: What? \nAnswer:");
  CHECK(text("{{ number }}{{yes}}") == "7true");
  CHECK(text("{{choices.text[1]}} {{options[0]}} {{nested[1].label}}") == "b red B");
  CHECK(text("{{'raw \\n'}}{{\"\\n\\u00e9\"}}{{5}}") ==
        "raw \\n\n\xc3\xa9"
        "5");
  CHECK(list("{{choices.text}}") == "a,b,c");
  CHECK(list("{{nested.text}}") == "x,y");  // of a list of maps
  CHECK(TextTemplate("{{choices}}").value(record(), "").kind == FieldValue::Kind::kMap);
  CHECK(TextTemplate("{{number}}").value(record(), "").kind == FieldValue::Kind::kNumber);
  CHECK(TextTemplate().empty());
}

TEST_CASE("benchmark: the first alternative that a record has counts") {
  CHECK(text("{{stem // question | strip}}") == "What?");
  CHECK(text("{{question // stem}}") == " What? ");
  CHECK(list("{{choices.name // nested.text // options}}") == "x,y");
  CHECK(list("{{targets.choices // targets | keys}}") == "t1,t2");
  CHECK(text("{{stem // \"none\"}}") == "none");
  check_fails("{{stem // options[2]}}", "file:3: expected the field options[2], found a list of 2");
}

TEST_CASE("benchmark: functions of templates") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{question | strip}}", "What?"},
      {"{{question | lstrip}}", "What? "},
      {"{{question | rstrip}}", " What?"},
      {"{{ctx_b | capitalize}}", "He ran"},
      {"{{ctx_b | append(' and ', options[0] | capitalize, 1)}}", "HE ran and Red1"},
      {"{{text | replace('t', '')}}", "The ca sa on he ma"},
      {"{{text | replace('at', 'atat')}}", "The catat satat on the matat"},
      {"{{text | regex_replace('([cs])at', '<$1$$>')}}", "The <c$> <s$> on the mat"},
      {"{{sentence | before('_')}}{{options[1]}}", "Ann saw green"},
      {"{{sentence | after(\"_\") | strip}}", "there."},
      {"{{text | before_last(' ')}}", "The cat sat on the"},
      {"{{text | after_last(' ')}}", "mat"},
      {"{{key | before_last(' ')}}", ""},
      {"{{key | after_last(' ')}}", "3"},
      {"{{text | split(' ') | join('-')}}", "The-cat-sat-on-the-mat"},
      {"{{key | index(choices.label)}}", "2"},
      {"{{key | index('1', choices.label)}}", "3"},
      {"{{nested[1].label | index(stem.label // nested.label)}}", "1"},
      {"{{yes | index(false, 'true')}}", "1"}};
  for (const auto& [form, expected] : cases) {
    INFO(form);
    // true and false are names in a template, and no fields here.
    if (form.find("false") != std::string::npos)
      check_fails(form, "the field false");
    else
      CHECK(text(form) == expected);
  }
  CHECK(list("{{targets | values}}") == "1,0");
  CHECK(list("{{options | capitalize | append('!')}}") == "Red!,Green!");
}

TEST_CASE("benchmark: what is no template is refused, with the place") {
  check_refused("{{question",
                "expected }}, |, // or the end of the expression, found the end of the template at byte 10");
  check_refused("{{}}", "expected a name of a field, found '}}' at byte 2");
  check_refused("{{a b}}", "found 'b}}' at byte 4");
  check_refused("{{a | strp}}",
                "expected a name of a function, found 'strp}}' at byte 6; did you mean strip?");
  check_refused("{{a | replace('x')}}", "expected replace with 2 arguments");
  check_refused("{{a | strip('x')}}", "expected strip with 0 arguments");
  check_refused("{{a | index()}}", "expected a name of a field");
  check_refused("{{a | replace('x', 'y'}}", "expected , or )");
  check_refused("{{'x}}", "expected a text that ends with '");
  check_refused("{{\"\\q\"}}", "expected a text with the escapes of JSON");
  check_refused("{{a[9999999]}}", "expected a number up to 1000000");
  check_refused("{{a[0}}", "expected ]");
  check_refused("{{a | regex_replace('(', '')}}", "regular expression '('");
  check_refused("{{a | regex_replace(b, '')}}", "expected an expression of regex_replace in quotes");
  std::string deep = "a";
  for (int i = 0; i < 9; ++i) deep.insert(0, "a | append(").append(")");
  check_refused("{{" + deep + "}}", "expected at most 8 levels of functions");
}

TEST_CASE("benchmark: values that a function does not take are refused, with the record's place") {
  check_fails("{{missing}}",
              "file:3: expected the field missing, found a map with the keys 'question', 'number'");
  check_fails("{{choices.label.x}}", "the field choices.label.x");
  check_fails("{{options}}", "file:3: template: expected a text, found a list of 2");
  check_fails("x{{none}}", "found null");
  check_fails("{{text | before('_')}}", "before: expected a text with '_', found 'The cat sat on the mat'");
  check_fails("{{text | join(',')}}", "join: expected a list");
  check_fails("{{text | keys}}", "keys: expected a map");
  check_fails("{{key | index('1', '2')}}", "index: expected one of 2 values, found '3'");
  check_fails("{{text | split('')}}", "split: expected an argument that is not empty");
}

TEST_CASE("benchmark: a template cannot make endless text") {
  std::string form = "{{'" + std::string(1000, 'a') + "'";
  for (int i = 0; i < 8; ++i) form += " | replace('a', 'aaaaaaaaaa')";
  check_fails(form + "}}", "replace: expected at most 67108864 bytes, found more");
  std::string regex = "{{'" + std::string(1000, 'a') + "'";
  for (int i = 0; i < 8; ++i) regex += " | regex_replace('a', 'aaaaaaaaaa')";
  check_fails(regex + "}}", "result: expected at most 67108864 bytes, found more");
}

TEST_CASE("benchmark: regular expressions find what Python's do") {
  using Matches = std::vector<std::vector<std::string>>;
  // re.findall of Python 3.11.
  CHECK(TextRegex("#### (\\-?[0-9\\.\\,]+)", "x").find_all("a\n#### -1,234.5\n#### 7") ==
        Matches{{"-1,234.5"}, {"7"}});
  CHECK(TextRegex("(-?[$0-9.,]{2,})|(-?[0-9]+)", "x").find_all("so $12.50, or 7 it is.") ==
        Matches{{"$12.50,", ""}, {"", "7"}});
  CHECK(TextRegex("a*", "x").find_all("baac") == Matches{{""}, {"aa"}, {""}, {""}});
  CHECK(TextRegex("x", "x").find_all("abc").empty());
  // re.sub
  CHECK(TextRegex("(?s).*#### ", "x").replaced("one\ntwo #### 3", "") == "3");
  CHECK(TextRegex("\\b(?:The |the |An |A |a |an )", "x").replaced("The cat and an ape", "") == "cat and ape");
  CHECK(TextRegex("\\[.*?\\]", "x").replaced("a [b] c [d]", "") == "a  c ");
  CHECK(TextRegex("a*", "x").replaced("baac", "-") == "-b--c-");
  CHECK(TextRegex("\\s", "x")
            .replaced("a\xe3\x80\x80"
                      "b",
                      "_") == "a_b");
  CHECK(TextRegex("^ = x", "x").matches(" = x = "));
  CHECK_FALSE(TextRegex("^= x", "x").matches(" = x = "));
}

TEST_CASE("benchmark: expressions that are invalid, long or slow are refused") {
  CHECK_THROWS_WITH(TextRegex("a(", "match"), Catch::Contains("match: regular expression 'a('") &&
                                                  Catch::Contains("missing closing parenthesis at byte 2"));
  CHECK_THROWS_WITH(TextRegex(std::string(5000, 'a'), "match"), Catch::Contains("found 5000 bytes"));
  CHECK_THROWS_AS(TextRegex("\\C", "match"), ConfigError);
  const TextRegex slow("(a+)+$", "match");
  CHECK_THROWS_WITH(slow.matches(std::string(40, 'a') + "b"),
                    Catch::Contains("search: expected one of at most"));
}
