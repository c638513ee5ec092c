#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/base/jinja/jinja_value.h"

namespace moh {

/// The budget that is left to a rendering.
class JinjaBudget {
 public:
  JinjaBudget(std::int64_t steps, std::int64_t bytes) : steps_(steps), bytes_(bytes) {}
  /// Each throws JinjaFault once there were more than the limit.
  void step(std::size_t count = 1);
  void bytes(std::size_t count);
  /// For values that are made: each item of a list or object takes memory.
  void items(std::size_t count) { bytes(count * sizeof(JinjaValue)); }

 private:
  std::int64_t steps_, bytes_;
};

/// The arguments of a call.
struct JinjaArguments {
  std::vector<JinjaValue> values;
  std::vector<std::pair<std::string, JinjaValue>> named;
};

/// A value with arguments, for a filter, a test or a method.
class JinjaCall {
 public:
  JinjaCall(std::string_view name, JinjaValue subject, JinjaArguments arguments, JinjaBudget& budget)
      : name_(name), subject_(std::move(subject)), arguments_(std::move(arguments)), budget_(budget) {}

  std::string_view name() const { return name_; }
  const JinjaValue& subject() const { return subject_; }
  JinjaBudget& budget() const { return budget_; }
  const JinjaArguments& arguments() const { return arguments_; }

  /// The parameters in their order. Throws JinjaFault for other, or more, arguments.
  void expect(std::initializer_list<std::string_view> parameters) const;
  /// An argument by its position, or its name; null if it is not given.
  const JinjaValue* argument(std::size_t position, std::string_view parameter = "") const;
  const JinjaValue& required(std::size_t position, std::string_view parameter = "") const;
  /// A text; throws JinjaFault for other values.
  const MarkedText& text(std::size_t position, std::string_view parameter) const;
  /// An integer, `otherwise` where it is not given.
  std::int64_t whole(std::size_t position, std::string_view parameter, std::int64_t otherwise) const;
  /// The subject. Throws JinjaFault for one of another kind.
  const MarkedText& subject_text() const;

  /// Values that count on the budget.
  JinjaValue made(MarkedText text) const;
  JinjaValue made(JinjaList list) const;

  [[noreturn]] void fail(std::string_view expected, const JinjaValue& found) const;

 private:
  const std::string name_;
  const JinjaValue subject_;
  const JinjaArguments arguments_;
  JinjaBudget& budget_;
};

/// A filter, a test (which returns a boolean) or a method.
using JinjaOperation = JinjaValue (*)(const JinjaCall&);

/// Each is null for a name that is not known.
JinjaOperation find_jinja_filter(std::string_view name);
JinjaOperation find_jinja_test(std::string_view name);
/// The methods of texts, and of objects.
JinjaOperation find_jinja_text_method(std::string_view name);
JinjaOperation find_jinja_object_method(std::string_view name);

/// The text without the characters of `blanks`, or without white space where it is null, on the sides.
enum class JinjaSides { kBoth, kLeft, kRight };
MarkedText jinja_stripped(const MarkedText& text, JinjaSides sides, const MarkedText* blanks = nullptr);
/// At most `count` occurrences replaced; all of them where it is negative.
MarkedText jinja_replaced(const MarkedText& text, const MarkedText& from, const MarkedText& to,
                          std::int64_t count, JinjaBudget& budget);
/// The text with the code points of its characters changed.
MarkedText jinja_mapped(const MarkedText& text, std::int32_t (*change)(std::int32_t code));
MarkedText jinja_upper(const MarkedText& text);
MarkedText jinja_lower(const MarkedText& text);
/// The first character in upper case, the others in lower case.
MarkedText jinja_capitalized(const MarkedText& text);

}  // namespace moh
