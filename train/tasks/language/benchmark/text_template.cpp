#include "train/tasks/language/benchmark/text_template.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>
#include <variant>

#include "core/error.h"
#include "train/config/suggest.h"
#include "train/io/printable.h"
#include "train/tasks/language/benchmark/json_value.h"
#include "train/tasks/language/benchmark/text_regex.h"
#include "train/tasks/language/score/python_text.h"

namespace moh {

namespace {

using Kind = FieldValue::Kind;

struct Function {
  std::string_view name;
  int least, most;  ///< arguments
};

constexpr int kMany = 64;
constexpr std::array<Function, 15> kFunctions = {{{"strip", 0, 0},
                                                  {"lstrip", 0, 0},
                                                  {"rstrip", 0, 0},
                                                  {"capitalize", 0, 0},
                                                  {"append", 1, kMany},
                                                  {"replace", 2, 2},
                                                  {"regex_replace", 2, 2},
                                                  {"before", 1, 1},
                                                  {"after", 1, 1},
                                                  {"before_last", 1, 1},
                                                  {"after_last", 1, 1},
                                                  {"split", 1, 1},
                                                  {"join", 1, 1},
                                                  {"keys", 0, 0},
                                                  {"values", 0, 0}}};
constexpr Function kIndex = {"index", 1, kMany};

const Function* find_function(std::string_view name) {
  if (name == kIndex.name) return &kIndex;
  const auto found = std::ranges::find(kFunctions, name, &Function::name);
  return found == kFunctions.end() ? nullptr : &*found;
}

std::string nearest_function(std::string_view name) {
  std::vector<std::string> names{std::string(kIndex.name)};
  for (const Function& function : kFunctions) names.emplace_back(function.name);
  return config::nearest_name(name, names);
}

/// A name of a map's value, or the position of an item in a list.
using Step = std::variant<std::string, std::size_t>;

}  // namespace

struct TextTemplate::Expression {
  struct Call {
    const Function* function = nullptr;
    std::vector<Expression> arguments;
    std::shared_ptr<const TextRegex> regex;  ///< of regex_replace
  };
  struct Alternative {
    std::vector<Step> path;
    std::optional<FieldValue> literal;  ///< in the place of a path
    std::vector<Call> calls;
  };

  std::vector<Alternative> alternatives;
};

/// Recursive descent.
class TextTemplate::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Part> parts() {
    std::vector<Part> parts;
    while (at_ < text_.size()) {
      const std::size_t open = std::min(text_.find("{{", at_), text_.size());
      if (open > at_) parts.push_back({std::string(text_.substr(at_, open - at_)), nullptr});
      at_ = open;
      if (at_ == text_.size()) break;
      at_ += 2;
      auto expression = std::make_shared<Expression>(read_expression());
      if (!take("}}")) fail("}}, |, // or the end of the expression");
      parts.push_back({"", std::move(expression)});
    }
    return parts;
  }

 private:
  static constexpr int kMaxDepth = 8;

  [[noreturn]] void fail(const std::string& expected, const std::string& fix = "") const {
    const std::string found =
        at_ < text_.size() ? "'" + printable(text_.substr(at_), 20) + "'" : "the end of the template";
    throw ConfigError(
        error_message("template", "", expected, found + " at byte " + std::to_string(at_), fix));
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  /// Skips spaces and the token, if it is next.
  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  bool next_is(char c) {
    skip_spaces();
    return at_ < text_.size() && text_[at_] == c;
  }

  std::string name(const std::string& expected) {
    skip_spaces();
    std::size_t end = at_;
    const auto in_name = [&](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
    while (end < text_.size() && in_name(text_[end])) ++end;
    if (end == at_) fail(expected);
    return std::string(text_.substr(std::exchange(at_, end), end - at_));
  }

  std::size_t number() {
    skip_spaces();
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value > 1'000'000) fail("a number up to 1000000");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  std::string quoted() {
    const char quote = text_[at_];
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += quote == '"' && text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail(std::string("a text that ends with ") + quote);
    const std::string_view whole = text_.substr(at_, end + 1 - at_);
    std::string text(whole.substr(1, whole.size() - 2));
    if (quote == '"') {
      try {
        text = parse_json_value(whole, "").text;
      } catch (const DataError&) {
        fail("a text with the escapes of JSON");
      }
    }
    at_ = end + 1;
    return text;
  }

  Expression read_expression() {
    if (++depth_ > kMaxDepth) fail("at most " + std::to_string(kMaxDepth) + " levels of functions");
    Expression expression;
    do {
      expression.alternatives.push_back(alternative());
    } while (take("//"));
    --depth_;
    return expression;
  }

  Expression::Alternative alternative() {
    Expression::Alternative result;
    if (next_is('\'') || next_is('"'))
      result.literal = FieldValue::of_text(quoted());
    else if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)
      result.literal = FieldValue::of_number(static_cast<std::int64_t>(number()));
    else
      result.path = path();
    while (take("|")) result.calls.push_back(call());
    return result;
  }

  std::vector<Step> path() {
    std::vector<Step> steps{name("a name of a field")};
    while (true) {
      if (take(".")) {
        steps.emplace_back(name("a name of a field"));
      } else if (take("[")) {
        steps.emplace_back(number());
        if (!take("]")) fail("]");
      } else {
        return steps;
      }
    }
  }

  Expression::Call call() {
    skip_spaces();
    const std::size_t begin = at_;
    const std::string called = name("a name of a function");
    Expression::Call result{find_function(called), {}, nullptr};
    if (result.function == nullptr) {
      at_ = begin;
      const std::string nearest = nearest_function(called);
      fail("a name of a function", nearest.empty() ? "" : "did you mean " + nearest + "?");
    }
    if (take("(")) {
      do {
        if (std::ssize(result.arguments) == kMany) fail("at most " + std::to_string(kMany) + " arguments");
        result.arguments.push_back(read_expression());
      } while (take(","));
      if (!take(")")) fail(", or )");
    }
    const std::int64_t count = std::ssize(result.arguments);
    if (count < result.function->least || count > result.function->most) {
      at_ = begin;
      const bool many = result.function->most == kMany;
      fail(called + " with " + std::to_string(result.function->least) + (many ? " or more" : "") +
           " arguments");
    }
    if (called == "regex_replace") result.regex = regex_of(result.arguments.front());
    return result;
  }

  std::shared_ptr<const TextRegex> regex_of(const Expression& argument) const {
    const Expression::Alternative& only = argument.alternatives.front();
    if (!only.literal || argument.alternatives.size() > 1 || !only.calls.empty())
      fail("an expression of regex_replace in quotes");
    return std::make_shared<TextRegex>(only.literal->text, "template");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// The values of expressions for one record.
class TextTemplate::Evaluation {
 public:
  Evaluation(const FieldValue& record, const std::string& where) : record_(record), where_(where) {}

  FieldValue value(const Expression& expression) const {
    for (const Expression::Alternative& alternative : expression.alternatives) {
      const bool last = &alternative == &expression.alternatives.back();
      std::optional<FieldValue> found = start(alternative, last);
      if (!found) continue;
      for (const Expression::Call& call : alternative.calls) *found = apply(call, std::move(*found));
      return *std::move(found);
    }
    fail_check(__FILE__, __LINE__, "alternatives", "an expression without alternatives");
  }

  const std::string& text(const FieldValue& value, std::string_view of) const {
    const bool is_text =
        value.kind == Kind::kText || value.kind == Kind::kNumber || value.kind == Kind::kBool;
    if (!is_text) fail(of, "a text", describe(value));
    return value.text;
  }

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found) const {
    throw DataError(error_message(where_, what, expected, found));
  }

  /// The literal or the field; nothing if the record lacks it and others may follow.
  std::optional<FieldValue> start(const Expression::Alternative& alternative, bool last) const {
    if (alternative.literal) return *alternative.literal;
    const FieldValue* at = &record_;
    FieldValue spread;  // what a name makes of a list of maps
    std::string walked;
    for (const Step& step : alternative.path) {
      const FieldValue* next = nullptr;
      if (const std::size_t* index = std::get_if<std::size_t>(&step)) {
        walked += "[" + std::to_string(*index) + "]";
        if (*index < at->items.size()) next = &at->items[*index];
      } else {
        const std::string& name = std::get<std::string>(step);
        walked += walked.empty() ? name : "." + name;
        if (at->items.empty()) {
          next = at->find(name);
        } else if (std::optional<FieldValue> list = of_each(*at, name)) {
          spread = *std::move(list);
          next = &spread;
        }
      }
      if (next == nullptr && last) fail("", "the field " + walked, describe(*at));
      if (next == nullptr) return std::nullopt;
      at = next;
    }
    return *at;
  }

  /// The values of the maps of a list at a name; nothing if one lacks it.
  static std::optional<FieldValue> of_each(const FieldValue& list, const std::string& name) {
    FieldValue values{Kind::kList, {}, {}, {}};
    for (const FieldValue& item : list.items) {
      const FieldValue* found = item.find(name);
      if (found == nullptr) return std::nullopt;
      values.items.push_back(*found);
    }
    return values;
  }

  FieldValue apply(const Expression::Call& call, FieldValue value) const {
    const std::string_view name = call.function->name;
    if (name == "keys" || name == "values") return of_map(name, value);
    if (name == kIndex.name) return index_of(call, value);
    if (name == "join") return joined(call, value);
    if (value.kind == Kind::kList) {
      for (FieldValue& item : value.items) item = apply(call, std::move(item));
      return value;
    }
    const std::string& given = text(value, name);
    if (name == "append") return appended(call, given);
    if (name == "strip") return FieldValue::of_text(std::string(python_strip(given)));
    if (name == "lstrip") return FieldValue::of_text(std::string(python_lstrip(given)));
    if (name == "rstrip") return FieldValue::of_text(std::string(python_rstrip(given)));
    if (name == "capitalize") return FieldValue::of_text(python_capitalize(given));
    if (name == "regex_replace") return FieldValue::of_text(call.regex->replaced(given, argument(call, 1)));
    const std::string mark = argument(call, 0);
    if (mark.empty()) fail(name, "an argument that is not empty", "an empty one");
    if (name == "replace") return FieldValue::of_text(replaced(given, mark, argument(call, 1)));
    if (name == "split") return split(given, mark);
    return FieldValue::of_text(part_of(name, given, mark));
  }

  FieldValue appended(const Expression::Call& call, std::string given) const {
    for (std::size_t i = 0; i < call.arguments.size(); ++i) given += argument(call, i);
    return FieldValue::of_text(std::move(given));
  }

  std::string argument(const Expression::Call& call, std::size_t i) const {
    return text(value(call.arguments[i]), call.function->name);
  }

  std::string part_of(std::string_view name, const std::string& given, const std::string& mark) const {
    const bool last = name.ends_with("_last"), before = name.starts_with("before");
    const std::size_t found = last ? given.rfind(mark) : given.find(mark);
    if (found != std::string::npos)
      return before ? given.substr(0, found) : given.substr(found + mark.size());
    if (!last) fail(name, "a text with '" + printable(mark, 30) + "'", "'" + printable(given, 60) + "'");
    return before ? "" : given;
  }

  std::string replaced(const std::string& given, const std::string& what, const std::string& with) const {
    std::string result;
    std::size_t done = 0;
    for (std::size_t at = given.find(what); at != std::string::npos; at = given.find(what, done)) {
      if (result.size() > kMostTextBytes)
        fail("replace", "at most " + std::to_string(kMostTextBytes) + " bytes", "more");
      result.append(given, done, at - done).append(with);
      done = at + what.size();
    }
    return result.append(given, done);
  }

  static FieldValue split(const std::string& given, const std::string& mark) {
    FieldValue list{Kind::kList, {}, {}, {}};
    std::size_t done = 0;
    for (std::size_t at = given.find(mark); at != std::string::npos; at = given.find(mark, done)) {
      list.items.push_back(FieldValue::of_text(given.substr(done, at - done)));
      done = at + mark.size();
    }
    list.items.push_back(FieldValue::of_text(given.substr(done)));
    return list;
  }

  FieldValue joined(const Expression::Call& call, const FieldValue& value) const {
    if (value.kind != Kind::kList) fail("join", "a list", describe(value));
    const std::string between = argument(call, 0);
    std::string result;
    for (std::size_t i = 0; i < value.items.size(); ++i)
      result.append(i == 0 ? "" : between).append(text(value.items[i], "join"));
    return FieldValue::of_text(std::move(result));
  }

  FieldValue of_map(std::string_view name, const FieldValue& value) const {
    if (value.kind != Kind::kMap) fail(name, "a map", describe(value));
    FieldValue list{Kind::kList, {}, {}, {}};
    for (const FieldEntry& entry : value.entries)
      list.items.push_back(name == "keys" ? FieldValue::of_text(entry.key) : entry.value);
    return list;
  }

  FieldValue index_of(const Expression::Call& call, const FieldValue& given) const {
    std::int64_t position = 0;
    const auto same = [&](const FieldValue& other) {
      return text(other, kIndex.name) == text(given, kIndex.name);
    };
    for (const Expression& argument : call.arguments) {
      const FieldValue candidate = value(argument);
      if (candidate.kind != Kind::kList) {
        if (same(candidate)) return FieldValue::of_number(position);
        ++position;
        continue;
      }
      for (const FieldValue& item : candidate.items) {
        if (same(item)) return FieldValue::of_number(position);
        ++position;
      }
    }
    fail(kIndex.name, "one of " + std::to_string(position) + " values", describe(given));
  }

  const FieldValue& record_;
  const std::string& where_;
};

TextTemplate::TextTemplate(std::string_view text) : parts_(Parser(text).parts()) {}

FieldValue TextTemplate::value(const FieldValue& record, const std::string& where) const {
  if (parts_.size() == 1 && parts_.front().expression != nullptr)
    return Evaluation(record, where).value(*parts_.front().expression);
  return FieldValue::of_text(text(record, where));
}

std::string TextTemplate::text(const FieldValue& record, const std::string& where) const {
  const Evaluation evaluation(record, where);
  std::string result;
  for (const Part& part : parts_) {
    if (part.expression == nullptr)
      result += part.text;
    else
      result += evaluation.text(evaluation.value(*part.expression), "template");
  }
  return result;
}

}  // namespace moh
