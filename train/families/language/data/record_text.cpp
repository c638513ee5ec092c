#include "train/families/language/data/record_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/base/io/json_fault.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

using Json = nlohmann::json;

constexpr const char* kMessages = "messages";
constexpr std::string_view kChatFix =
    "records of chats need a template: set data.message_template (--message-template of moh data), such as "
    "\"<|im_start|>{role}\\n{content}<|im_end|>\\n\", with the marks that the model knows";
constexpr const char* kAnswers = "assistant";  // the role whose messages are learned

/// Refuses nesting at which the library would overflow the stack.
Json parse_line(const std::string& text, bool& too_deep) {
  constexpr int kMaxDepth = 64;
  const auto check = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  return Json::parse(text, check, /*allow_exceptions=*/false);
}

std::string quoted(const std::string& key) {
  return "'" + printable(key) + "'";
}

std::string shown_json(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60));
}

/// The value at a key of an object, or at "a.b" the one at the key "b" of the object at "a"; null if there is
/// none.
const Json* value_at(const Json& object, const std::string& key) {
  if (!object.is_object()) return nullptr;
  if (const auto whole = object.find(key); whole != object.end()) return &*whole;
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return nullptr;
  const auto outer = object.find(key.substr(0, dot));
  return outer == object.end() ? nullptr : value_at(*outer, key.substr(dot + 1));
}

/// A place in a template: text up to a brace, or to its end.
std::size_t next_brace(std::string_view text, std::size_t from) {
  return std::min(text.find_first_of("{}", from), text.size());
}

}  // namespace

/// A line, or an object within it.
class RecordReader::Record {
 public:
  Record(const std::string& path, const DocumentPart& part) : where_(path + ":" + std::to_string(part.line)) {
    bool too_deep = false;
    json_ = parse_line(part.text, too_deep);
    if (too_deep) fail("", "at most 64 levels of nesting", "more");
    if (json_.is_discarded()) {
      const JsonFault fault = find_json_fault(part.text);
      fail("", "a JSON object", fault.words(/*one_line=*/true), fault.fix);
    }
    if (!json_.is_object()) fail("", "a JSON object", printable(part.text.substr(0, 60)));
  }
  Record(std::string where, Json object) : where_(std::move(where)), json_(std::move(object)) {
    if (!json_.is_object()) fail("", "a JSON object", shown_json(json_));
  }

  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const {
    throw DataError(error_message(where_, what, expected, found, fix));
  }

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }
  bool has(const std::string& key) const { return value_at(json_, key) != nullptr; }
  const std::string& text(const std::string& key) const {
    const Json* const found = value_at(json_, key);
    if (found == nullptr || !found->is_string())
      fail("", "a text at the key " + quoted(key), found == nullptr ? "no such key" : shown_json(*found));
    return found->get_ref<const std::string&>();
  }
  /// "the keys 'a', 'b'".
  std::string keys() const {
    constexpr std::size_t kShown = 8;
    std::string text;
    std::size_t count = 0;
    for (const auto& [key, value] : json_.items()) {
      if (++count > kShown) return text + " ...";
      text += (text.empty() ? "the keys " : ", ") + quoted(key);
    }
    return text.empty() ? "an empty object" : text;
  }

 private:
  std::string where_;
  Json json_;
};

std::string identity_of(const RecordOptions& options) {
  const RecordOptions usual{.text_key = options.text_key};
  if (options == usual) return options.text_key;
  std::string text = options.text_key;
  for (const std::string* part : {&options.prompt, &options.response, &options.message})
    text.append(1, '\0').append(*part);
  return text;
}

namespace {

/// The fault in the braces; "" if there is none.
std::string brace_fault(std::string_view text) {
  for (std::size_t at = next_brace(text, 0); at < text.size(); at = next_brace(text, at)) {
    const std::string_view two = text.substr(at, 2);
    if (two == "{{" || two == "}}") {
      at += 2;
      continue;
    }
    if (two[0] == '}') return "a } at byte " + std::to_string(at) + " without its {";
    const std::size_t end = next_brace(text, at + 1);
    if (end == text.size() || text[end] != '}') return "a { at byte " + std::to_string(at) + " without its }";
    if (end == at + 1) return "{} at byte " + std::to_string(at) + ", without a key";
    at = end + 1;
  }
  return "";
}

}  // namespace

RecordTemplate read_record_template(const std::string& text) {
  RecordTemplate form;
  std::string before;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t brace = next_brace(text, at);
    before += text.substr(at, brace - at);
    if (brace == text.size()) break;
    if (text[brace + 1] == text[brace]) {
      before += text[brace];
      at = brace + 2;
      continue;
    }
    const std::size_t end = text.find('}', brace);
    form.emplace_back(std::move(before), text.substr(brace + 1, end - brace - 1));
    before.clear();
    at = end + 1;
  }
  if (!before.empty()) form.emplace_back(std::move(before), "");
  return form;
}

std::vector<std::pair<std::string_view, std::string>> template_faults(const RecordOptions& options) {
  std::vector<std::pair<std::string_view, std::string>> faults;
  const auto check = [&](std::string_view key, const std::string& text, std::string_view needed) {
    std::string fault = brace_fault(text);
    const bool names = needed.empty() || text.empty() || text.find(needed) != std::string::npos;
    if (fault.empty() && !names) fault = printable(text) + ", without " + std::string(needed);
    if (!fault.empty()) faults.emplace_back(key, std::move(fault));
  };
  check("prompt_template", options.prompt, "");
  check("response_template", options.response, "{");
  check("message_template", options.message, "{content}");
  return faults;
}

RecordReader::RecordReader(const RecordOptions& options)
    : options_(checked(options)),
      prompt_(read_record_template(options.prompt)),
      response_(read_record_template(options.response)),
      message_(read_record_template(options.message)) {}

RecordOptions RecordReader::checked(const RecordOptions& options) {
  const auto faults = template_faults(options);
  if (faults.empty()) return options;
  throw ConfigError(
      error_message("data." + std::string(faults[0].first), "", kTemplateForm, faults[0].second));
}

std::string RecordReader::filled(const RecordTemplate& form, const Record& record) {
  std::string text;
  for (const auto& [before, key] : form) {
    text += before;
    if (!key.empty()) text += record.text(key);
  }
  return text;
}

bool RecordReader::has_prompt(const Record& record) const {
  const auto is_there = [&](const auto& part) { return part.second.empty() || record.has(part.second); };
  return !options_.response.empty() && std::ranges::all_of(prompt_, is_there) &&
         std::ranges::all_of(response_, is_there);
}

std::string RecordReader::expected() const {
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", or ") + what; };
  if (!options_.text_key.empty()) add("a text at the key " + quoted(options_.text_key));
  std::string keys;
  for (const RecordTemplate* form : {&prompt_, &response_}) {
    for (const auto& [before, key] : *form) {
      if (!key.empty()) keys += (keys.empty() ? "" : " and ") + quoted(key);
    }
  }
  if (!options_.response.empty()) add("texts at the keys " + keys);
  if (!options_.message.empty()) add("a list at the key " + quoted(kMessages));
  return text;
}

std::optional<RecordKind> RecordReader::kind_of(const InputPath& input, const DocumentPart& first) const {
  if (first.line == 0) return RecordKind::kText;
  std::vector<RecordKind> kinds;
  std::optional<Record> record;
  try {
    record.emplace(input.path, first);
  } catch (const DataError&) {
    if (input.named) throw;
    return std::nullopt;
  }
  if (!options_.text_key.empty() && record->has(options_.text_key)) kinds.push_back(RecordKind::kText);
  if (has_prompt(*record)) kinds.push_back(RecordKind::kPrompt);
  if (!options_.message.empty() && record->has(kMessages)) kinds.push_back(RecordKind::kChat);
  if (kinds.size() > 1) {
    record->fail(
        "", "one of: " + expected(), record->keys(),
        "an empty text_key, response_template or message_template says that files have none of these");
  }
  if (kinds.empty() && input.named)
    record->fail("", expected(), record->keys(),
                 options_.message.empty() && record->has(kMessages) ? kChatFix : "");
  return kinds.empty() ? std::nullopt : std::optional(kinds.front());
}

std::vector<TextSegment> RecordReader::messages(const Record& record) const {
  const auto found = record.json().find(kMessages);
  if (found == record.json().end() || !found->is_array() || found->empty()) {
    record.fail("", "a list of messages at the key " + quoted(kMessages),
                found == record.json().end() ? "no such key" : shown_json(*found));
  }
  std::vector<TextSegment> segments;
  bool has_answer = false;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const Record message(record.where() + ": message " + std::to_string(i), (*found)[i]);
    const bool is_answer = message.text("role") == kAnswers;
    has_answer = has_answer || is_answer;
    // The part of an answer before its content is no target: it is given where the model is to answer.
    bool is_target = false;
    for (const auto& [before, key] : message_) {
      segments.push_back({before, is_target});
      if (key.empty()) continue;
      is_target = is_target || (is_answer && key == "content");
      segments.push_back({message.text(key), is_target});
    }
  }
  if (!has_answer)
    record.fail(quoted(kMessages), "a message of the role " + quoted(kAnswers) + ", which is learned",
                "none");
  return segments;
}

std::vector<TextSegment> RecordReader::segments(const std::string& path, DocumentPart& part,
                                                RecordKind kind) const {
  std::vector<TextSegment> segments;
  if (part.line == 0) {
    segments.push_back({std::move(part.text)});
    return segments;
  }
  const Record record(path, part);
  switch (kind) {
    case RecordKind::kText:
      segments.push_back({record.text(options_.text_key)});
      break;
    case RecordKind::kPrompt:
      segments.push_back({filled(prompt_, record), /*is_target=*/false});
      segments.push_back({filled(response_, record)});
      break;
    case RecordKind::kChat:
      segments = messages(record);
      break;
  }
  // Neighbours that are read alike are encoded together.
  std::vector<TextSegment> joined;
  for (TextSegment& segment : segments) {
    if (!joined.empty() && joined.back().is_target == segment.is_target)
      joined.back().text += segment.text;
    else
      joined.push_back(std::move(segment));
  }
  return joined;
}

}  // namespace moh
