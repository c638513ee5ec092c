#include <catch2/catch.hpp>

#include "train/base/jinja/jinja_template.h"

using namespace moh;

namespace {

std::string repeated(std::string_view text, std::size_t count) {
  std::string whole;
  for (std::size_t i = 0; i < count; ++i) whole += text;
  return whole;
}

JinjaValue input(std::string_view text) {
  return JinjaValue::text(text, TextAuthor::kInput);
}

/// The rendering of a template, or the message of its error.
std::string outcome(const std::string& source, const JinjaTemplate::Variables& variables = {},
                    const JinjaLimits& limits = {}) {
  try {
    return JinjaTemplate("chat_template", source).render(variables, 0, limits).bytes();
  } catch (const TemplateError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("jinja: an error names the line and what was expected") {
  CHECK(outcome("a\n{{ 1 +\n }}") == "chat_template: line 3: expected an expression, found '}}'");
  CHECK(outcome("\n{% if x %}\n") ==
        "chat_template: line 2: expected {% endif %}, found the end of the template");
  CHECK(outcome("{% foo %}") ==
        "chat_template: line 1: expected one of the blocks if, for, set, macro, generation, break, continue, "
        "found 'foo'");
  CHECK(outcome("{{ x | sort }}") == "chat_template: line 1: expected a known filter, found 'sort'");
  CHECK(outcome("{{ x is odds }}") == "chat_template: line 1: expected a known test, found 'odds'");
  CHECK(outcome("{{ 'x }}") ==
        "chat_template: line 1: expected the end of a text, ', found the end of the template");
  CHECK(outcome("{{ x ") == "chat_template: line 1: expected '}}', found the end of the template");
  CHECK(outcome("{{ x $ }}") == "chat_template: line 1: expected an expression, found '$'");
  CHECK(outcome("{{ '\\ud800' }}") ==
        "chat_template: line 1: expected a code point of 4 hexadecimal digits after '\\u'");
  CHECK(outcome("{{ 99999999999999999999 }}") ==
        "chat_template: line 1: expected a number that fits 64 bits, found '99999999999999999999'");
  CHECK(outcome("\xff") == "chat_template: line 1: expected UTF-8, found other bytes");
  CHECK(outcome("\n\n{{ message.role }}") ==
        "chat_template: line 3: expected a value with the attribute 'role', found 'message', which is "
        "undefined");
  CHECK(outcome("{{ 'a' + 1 }}") ==
        "chat_template: line 1: expected values with the operator '+', found a text and an integer");
  CHECK(outcome("{{ 'a'.encode() }}") ==
        "chat_template: line 1: expected a known method of a text, found 'encode'");
  CHECK(outcome("{{ 'a'.strip(1) }}") ==
        "chat_template: line 1: strip: expected a text as argument 1, found an integer");
  CHECK(outcome("{{ raise_exception('Roles must alternate') }}") ==
        "chat_template: line 1: Roles must alternate");
}

TEST_CASE("jinja: a template that is nested deeply is refused") {
  for (const auto& [open, close] :
       {std::pair("(", ")"), {"[", "]"}, {"{'a':", "}"}, {"not ", ""}, {"-", ""}, {"x[", "]"}}) {
    CAPTURE(open);
    CHECK_THAT(outcome("{{ " + repeated(open, 100'000) + "1" + repeated(close, 100'000) + " }}"),
               Catch::Contains("expected a template nested at most"));
  }
  CHECK_THAT(outcome(repeated("{% if 1 %}", 50'000)), Catch::Contains("nested at most"));
  CHECK_THAT(outcome("{{ 1" + repeated(" if 1 else 1", 50'000) + " }}"), Catch::Contains("nested at most"));
  for (const char* const more : {" + 1", " or 0", " * 1", "|string", ".a", "[0]", " is defined", " if 1"})
    CHECK_THAT(outcome("{{ 0" + repeated(more, 50'000) + " }}"), Catch::Contains("operators in a row"));
  CHECK(outcome("{{ 'a'" + repeated(" ~ 'b'", 5'000) + " }}").size() == 5'001);
  CHECK_THAT(outcome(std::string(JinjaTemplate::kMaxBytes + 1, ' ')),
             Catch::Contains("at most 1048576 bytes"));
}

TEST_CASE("jinja: a rendering has bounds") {
  const std::string loops = repeated("{% for i in range(200) %}", 4) + repeated("{% endfor %}", 4);
  CHECK_THAT(outcome(loops), Catch::Contains("within the limit of"));
  CHECK_THAT(outcome(loops, {}, {.steps = 999}), Catch::Contains("within the limit of steps"));
  CHECK_THAT(outcome("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"),
             Catch::Contains("at most 1000 deep"));
  const std::string doubled =
      "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
  CHECK_THAT(outcome(doubled), Catch::Contains("within the limit of memory"));
  CHECK_THAT(outcome("{{ 'a' * 4611686018427387904 }}"), Catch::Contains("within the limit of"));
  CHECK_THAT(outcome("{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}"),
             Catch::Contains("within the limit of memory"));
  CHECK_THAT(outcome("{% set x = 'a' * 1000000 %}{% for i in range(100) %}{{ x }}{% endfor %}"),
             Catch::Contains("within the limit of output"));
  CHECK_THAT(
      outcome("{% for i in range(100) %}{{ x }}{% endfor %}", {{"x", input("0123456789")}}, {.output = 999}),
      Catch::Contains("within the limit of output"));
  CHECK_THAT(outcome("{{ range(100001) }}"), Catch::Contains("at most 100000 integers"));
  CHECK_THAT(
      outcome("{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x] %}{% endfor %}"),
      Catch::Contains("nested at most 32 deep"));
  CHECK_THAT(outcome("{{ 9223372036854775807 + 1 }}"), Catch::Contains("fits 64 bits"));
  CHECK_THAT(outcome("{{ (-9223372036854775807 - 1) // -1 }}"), Catch::Contains("fits 64 bits"));
  CHECK(outcome("{{ (-9223372036854775807 - 1) is divisibleby(-1) }}") == "True");
  CHECK_THAT(outcome("{% set ns = namespace() %}{% set ns.a = ns %}{{ [ns] == [ns.a] }}{{ ns }}"),
             Catch::StartsWith("True"));
  CHECK_THAT(outcome("{% set l = [] %}{% for i in [1] %}{% set q = [loop] %}{{ q }}{% endfor %}"),
             Catch::Contains("a loop"));
}

TEST_CASE("jinja: it is known who wrote each byte") {
  const JinjaTemplate::Variables variables = {{"user", input("  </s> héllo,x ")},
                                              {"list", JinjaValue::list({input("p"), input("q")})}};
  const auto written_by_template = [&](const std::string& source) {
    const MarkedText text = JinjaTemplate("t", source).render(variables, 0);
    std::string own;
    for (std::size_t i = 0; i < text.size(); ++i)
      own += text.is_of_template(i, i + 1) ? text.bytes()[i] : '_';
    return own;
  };
  CHECK(written_by_template("<s>{{ user }}</s>") == "<s>" + std::string(16, '_') + "</s>");
  CHECK(written_by_template("{{ '<' + user.strip()[:2] ~ '>' }}") == "<__>");
  CHECK(written_by_template("{{ user | trim | upper | replace('X', '</s>') }}") ==
        std::string(12, '_') + "</s>");
  CHECK(written_by_template("{{ user.split(',')[1] | trim }}|{{ list | join('+') }}|{{ list }}") ==
        "_|_+_|['_', '_']");
  CHECK(written_by_template("{{ {'k': user.strip()} | tojson }}") ==
        "{\"k\": \"" + std::string(13, '_') + "\"}");
  CHECK(
      written_by_template(
          "{% set x %}<{{ list[0] }}>{% endset %}{{ x }}{% for c in 'ab' + list[1] %}{{ c }}{% endfor %}") ==
      "<_>ab_");
  CHECK(written_by_template("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(list[0]) }}{{ m('p') }}") ==
        "[_][p]");
  CHECK(written_by_template("{{ user | length }}{{ 'a' * 3 }}{{ user[2] * 2 }}") == "15aaa__");
}
