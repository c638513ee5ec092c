#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "train/base/jinja/jinja_template.h"

using namespace moh;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::time_t kNoon = 1795867200;  // of make_golden.py

std::string file_text(const std::filesystem::path& name) {
  std::ostringstream text;
  text << std::ifstream(std::filesystem::path(MOH_SOURCE_DIR) / "tests/train/base/jinja" / name).rdbuf();
  return text.str();
}

JinjaValue value_of(const Json& json) {
  if (json.is_null()) return JinjaValue::none();
  if (json.is_boolean()) return JinjaValue::boolean(json.get<bool>());
  if (json.is_number_integer()) return JinjaValue::integer(json.get<std::int64_t>());
  if (json.is_number()) return JinjaValue::number(json.get<double>());
  if (json.is_string()) return JinjaValue::text(json.get<std::string>(), TextAuthor::kInput);
  if (json.is_array()) {
    JinjaList items;
    for (const Json& item : json) items.push_back(value_of(item));
    return JinjaValue::list(std::move(items));
  }
  JinjaObject entries;
  for (const auto& [key, value] : json.items())
    entries.emplace_back(JinjaValue::text(key, TextAuthor::kInput), value_of(value));
  return JinjaValue::object(std::move(entries));
}

/// As make_golden.py has it: the text, the template's own refusal, or a failure.
Json rendered(const std::string& source, const JinjaTemplate::Variables& variables) {
  try {
    return {{"text", JinjaTemplate("template", source).render(variables, kNoon).bytes()}};
  } catch (const TemplateError& error) {
    if (error.raised()) return {{"raised", error.reason()}};
    UNSCOPED_INFO(error.what());
    return {{"fails", true}};
  }
}

Json result_of(Json expected) {
  for (const char* const input : {"template", "conversation", "add_generation_prompt"}) expected.erase(input);
  return expected;
}

JinjaTemplate::Variables with_tokens(JinjaTemplate::Variables variables) {
  for (const auto& [name, text] :
       {std::pair("bos_token", "<s>"), {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}})
    variables.emplace_back(name, JinjaValue::text(text, TextAuthor::kTemplate));
  for (const char* const name : {"tools", "documents"}) variables.emplace_back(name, JinjaValue::none());
  return variables;
}

}  // namespace

TEST_CASE("jinja: published chat templates are rendered as transformers renders them") {
  const Json conversations = Json::parse(file_text("conversations.json")),
             golden = Json::parse(file_text("golden.json"));
  CHECK(golden.size() > 500);
  for (const Json& expected : golden) {
    const auto name = expected["template"].get<std::string>(),
               chat = expected["conversation"].get<std::string>();
    CAPTURE(name, chat, expected["add_generation_prompt"]);
    const Json found = rendered(
        file_text("templates/" + name + ".jinja"),
        with_tokens(
            {{"messages", value_of(conversations[chat])},
             {"add_generation_prompt", JinjaValue::boolean(expected["add_generation_prompt"].get<bool>())}}));
    CHECK(found == result_of(expected));
  }
}

TEST_CASE("jinja: expressions, statements and white space are as in Jinja") {
  const Json inputs =
      Json::parse(R"({"items": [3, 1, 2], "names": ["b", "a"], "text": "  Straße du Café-au-lait \n",
    "none": null, "yes": true, "object": {"b": 1, "a": [1.5, null, true, "x'y\"z\n"]},
    "people": [{"name": "x", "age": 3}, {"name": "y"}]})");
  JinjaTemplate::Variables variables;
  for (const auto& [name, value] : inputs.items()) variables.emplace_back(name, value_of(value));
  for (const Json& expected : Json::parse(file_text("golden_expressions.json"))) {
    auto source = expected["template"].get<std::string>();
    CAPTURE(source);
    for (std::size_t at = source.find("↵"); at != std::string::npos; at = source.find("↵"))
      source.replace(at, 3, "\n");
    CHECK(rendered(source, variables) == result_of(expected));
  }
}
