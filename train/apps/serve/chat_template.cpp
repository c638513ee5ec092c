#include "train/apps/serve/chat_template.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "train/base/http/request_error.h"
#include "train/base/jinja/jinja_template.h"
#include "train/families/language/data/record_text.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kAnswers = "assistant";
constexpr std::string_view kCure =
    "put the model's chat_template.jinja beside its tokenizer, or set data.message_template, such as "
    "\"<|im_start|>{role}\\n{content}<|im_end|>\\n\", in the run or after moh serve --checkpoint DIR";

JinjaValue own_text(std::string_view text) {
  return JinjaValue::text(text, TextAuthor::kTemplate);
}

/// The JSON of one of the tokenizer's files; null where there is none.
OrderedJson json_of(const Tokenizer& tokenizer, std::string_view name) {
  for (const TokenizerFile& file : tokenizer.files()) {
    if (file.name == name) return OrderedJson::parse(file.contents, nullptr, /*allow_exceptions=*/false);
  }
  return nullptr;
}

/// The value at a key; null where there is none.
OrderedJson value_at(const OrderedJson& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : OrderedJson();
}

/// A template, where it comes from, or why there is none.
struct TemplateSource {
  std::string where, text, fault;
};

/// A template, or the one of the name "default" of a list of them.
TemplateSource chosen(const std::string& where, const OrderedJson& value) {
  if (value.is_string()) return {where, value.get<std::string>(), ""};
  std::string names;
  for (const OrderedJson& entry : value) {
    const OrderedJson name = value_at(entry, "name"), text = value_at(entry, "template");
    if (!name.is_string() || !text.is_string()) continue;
    if (name == "default") return {where, text.get<std::string>(), ""};
    names += (names.empty() ? "'" : ", '") + name.get<std::string>() + "'";
  }
  return {where, "",
          error_message(where, "", "a text, or a list of templates of which one has the name 'default'",
                        names.empty() ? "something else" : "the names " + names)};
}

TemplateSource source_of(const Tokenizer& tokenizer) {
  for (const TokenizerFile& file : tokenizer.files()) {
    if (file.name == "chat_template.jinja") return {file.name, file.contents, ""};
  }
  for (const char* const name : {"tokenizer_config.json", "chat_template.json"}) {
    const OrderedJson value = value_at(json_of(tokenizer, name), "chat_template");
    if (!value.is_null()) return chosen(std::string(name) + ": chat_template", value);
  }
  return {};
}

/// The variables that every rendering has: the texts of special tokens, and what this server does not have.
JinjaTemplate::Variables shared_variables(const TokenText& text) {
  JinjaTemplate::Variables variables = {{"tools", JinjaValue::none()}, {"documents", JinjaValue::none()}};
  const OrderedJson config = json_of(text.tokenizer(), "tokenizer_config.json");
  const OrderedJson map = json_of(text.tokenizer(), "special_tokens_map.json");
  for (const char* const role :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    OrderedJson value = value_at(config, role);
    if (value.is_null()) value = value_at(map, role);
    if (value.is_object()) value = value_at(value, "content");
    std::string token = value.is_string() ? value.get<std::string>() : std::string();
    if (token.empty() && role == std::string_view("bos_token")) token = text.start_text();
    if (token.empty() && role == std::string_view("eos_token")) token = text.end_text();
    if (!token.empty()) variables.emplace_back(role, own_text(token));
  }
  return variables;
}

/// A part of a prompt that is encoded by itself.
using Segments = std::vector<MarkedText>;

/// Messages in the form of data.message_template. As in training, answers are encoded apart from what is
/// given.
Segments filled(const RecordTemplate& form, const std::vector<ChatMessage>& messages, bool asks) {
  Segments segments(1);
  const auto add = [&](const ChatMessage& message, bool whole) {
    bool in_answer = false;
    for (const auto& [before, key] : form) {
      segments.back().append(before, TextAuthor::kTemplate);
      const bool is_content = key == "content";
      if (is_content && !whole) return;
      if (is_content && message.role == kAnswers && !std::exchange(in_answer, true)) segments.emplace_back();
      if (!key.empty())
        segments.back().append(is_content ? message.content : message.role,
                               is_content ? TextAuthor::kInput : TextAuthor::kTemplate);
    }
    if (in_answer) segments.emplace_back();
  };
  for (const ChatMessage& message : messages) add(message, true);
  if (asks) add({std::string(kAnswers), ""}, false);
  return segments;
}

JinjaValue value_of(const std::vector<ChatMessage>& messages) {
  JinjaList list;
  for (const ChatMessage& message : messages)
    list.push_back(
        JinjaValue::object({{own_text("role"), own_text(message.role)},
                            {own_text("content"), JinjaValue::text(message.content, TextAuthor::kInput)}}));
  return JinjaValue::list(std::move(list));
}

}  // namespace

struct ChatTemplate::Parts {
  Parts(const TokenText& given, std::string_view message_template)
      : text(given), variables(shared_variables(given)) {
    const TemplateSource source = source_of(given.tokenizer());
    fault = source.fault;
    if (!source.text.empty()) {
      read(source);
    } else if (fault.empty() && !message_template.empty()) {
      read_message(std::string(message_template));
    } else if (fault.empty()) {
      fault = error_message("messages", "", "a model with a chat template", "none", kCure);
    }
    if (fault.empty()) find_ends();
  }

  void read(const TemplateSource& source) {
    try {
      jinja.emplace(source.where, source.text);
    } catch (const TemplateError& error) {
      fault = error.what();
    }
  }

  void read_message(const std::string& form) {
    const auto faults = template_faults({.message = form});
    if (!faults.empty()) {
      fault = error_message("data.message_template", "", kTemplateForm, faults[0].second);
      return;
    }
    message = read_record_template(form);
    for (const auto& [before, key] : message) {
      if (!key.empty() && key != "role" && key != "content")
        fault = error_message("data.message_template", "", "{role} and {content} alone", "{" + key + "}");
    }
  }

  /// The texts of a chat; `asks`: with what comes before an answer.
  Segments rendered(const std::vector<ChatMessage>& messages, bool asks) const {
    if (!jinja) return filled(message, messages, asks);
    JinjaTemplate::Variables given = variables;
    given.emplace_back("messages", value_of(messages));
    given.emplace_back("add_generation_prompt", JinjaValue::boolean(asks));
    return {jinja->render(given, std::time(nullptr))};
  }

  /// The ids of texts, after those that a text begins with where the template does not write them.
  std::vector<TokenId> ids_of(const Segments& segments) const {
    std::vector<TokenId> ids;
    if (!jinja) ids = text.tokenizer().sequence_start();
    bool begins = true;
    for (const MarkedText& segment : segments) {
      if (segment.empty()) continue;
      const auto trusts = [&](std::size_t begin, std::size_t end) {
        return segment.is_of_template(begin, end) &&
               (jinja || is_found(segment.bytes().substr(begin, end - begin)));
      };
      text.tokenizer().encode_trusted(segment.bytes(), std::exchange(begins, false), trusts, ids);
    }
    return ids;
  }

  /// Whether the tokenizer finds this special token in a text, as in those that the model was trained on.
  bool is_found(const std::string& token) const {
    std::vector<TokenId> ids;
    text.tokenizer().encode(token, ids);
    return ids.size() == 1 && text.tokenizer().special_text(ids[0]) == token;
  }

  /// The text that the template writes behind an answer ends it: a special token, else a text.
  void find_ends() {
    constexpr std::string_view kAnswer = "0";
    try {
      const Segments segments =
          rendered({{"user", "1"}, {std::string(kAnswers), std::string(kAnswer)}}, false);
      const auto last =
          std::ranges::find_if(segments.rbegin(), segments.rend(), [](const auto& s) { return !s.empty(); });
      if (last == segments.rend()) return;
      std::size_t begin = last->size();
      while (begin > 0 && last->author(begin - 1) == TextAuthor::kTemplate) --begin;
      const std::string behind = last->bytes().substr(begin);
      std::vector<TokenId> ids;
      text.tokenizer().encode_trusted(
          behind, false, [](std::size_t, std::size_t) { return true; }, ids);
      const auto special = [&](TokenId id) { return text.tokenizer().token_bytes(id).empty(); };
      const auto token = std::ranges::find_if(ids, special);
      if (token != ids.end()) {
        ends = {*token};
      } else if (const std::size_t size = behind.find_last_not_of(" \t\r\n") + 1; size > 0) {
        stops = {behind.substr(0, size)};
      }
    } catch (const DataError&) {
      // A template that refuses this chat says nothing; the model's own ends count.
    }
  }

  const TokenText& text;
  const JinjaTemplate::Variables variables;
  std::string fault;
  std::optional<JinjaTemplate> jinja;
  RecordTemplate message;
  std::vector<TokenId> ends;
  std::vector<std::string> stops;
};

ChatTemplate::ChatTemplate(const TokenText& text, std::string_view message_template)
    : parts_(std::make_unique<const Parts>(text, message_template)) {}

ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::fault() const {
  return parts_->fault;
}

const std::vector<TokenId>& ChatTemplate::ends() const {
  return parts_->ends;
}

const std::vector<std::string>& ChatTemplate::stops() const {
  return parts_->stops;
}

std::vector<TokenId> ChatTemplate::encode(const std::vector<ChatMessage>& messages,
                                          std::int64_t positions) const {
  if (!parts_->fault.empty()) throw RequestError(400, parts_->fault, "messages");
  const auto refuse_length = [&](const std::string& found) {
    return bad_parameter("messages", "a chat of at most " + std::to_string(positions) + " tokens", found);
  };
  try {
    const Segments segments = parts_->rendered(messages, true);
    std::size_t bytes = 0;
    for (const MarkedText& segment : segments) bytes += segment.size();
    if (parts_->text.tokens_at_least(bytes) > positions)
      throw refuse_length("one of " + std::to_string(bytes) + " bytes, which are more");
    std::vector<TokenId> ids = parts_->ids_of(segments);
    if (ids.empty()) throw RequestError(400, "messages: the chat template writes no text", "messages");
    if (std::ssize(ids) > positions) throw refuse_length(std::to_string(ids.size()));
    return ids;
  } catch (const TemplateError& error) {
    throw RequestError(400, error.raised() ? error.reason() : error.what(), "messages");
  } catch (const DataError& error) {
    throw RequestError(400, std::string("messages: ") + error.what(), "messages");
  }
}

}  // namespace moh
