#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "train/base/jinja/marked_text.h"

namespace moh {

class JinjaValue;
struct JinjaStatement;

using JinjaList = std::vector<JinjaValue>;
/// Keys, which are texts, and values, in the order in which they were added.
using JinjaObject = std::vector<std::pair<JinjaValue, JinjaValue>>;

/// The result of namespace(): variables that loops may change.
struct JinjaNamespace {
  std::vector<std::pair<std::string, JinjaValue>> variables;
};

/// The state behind `loop`.
struct JinjaLoop {
  std::shared_ptr<const JinjaList> items;
  std::size_t index = 0;
};

/// A fault of a template; without the place, which whoever runs the template knows.
class JinjaFault : public std::runtime_error {
 public:
  explicit JinjaFault(const std::string& message, bool raised = false)
      : std::runtime_error(message), raised_(raised) {}
  /// Whether the template itself refused, by raise_exception().
  bool raised() const { return raised_; }

 private:
  bool raised_;
};

/// The functions that every template knows.
enum class JinjaFunction { kDict, kNamespace, kRaiseException, kRange, kStrftimeNow };

/// A value of a template: one of Python's, as far as templates have them. Immutable, and cheap to copy;
/// namespaces and loops belong to the evaluator.
class JinjaValue {
 public:
  /// A variable that is not there.
  struct Undefined {
    std::string name;
  };
  struct Macro {
    const JinjaStatement* definition = nullptr;
  };
  /// Lists and objects hold one another this deep at most.
  static constexpr int kMaxDepth = 32;

  JinjaValue() : value_(Undefined{}) {}
  static JinjaValue undefined(std::string name) { return JinjaValue(Undefined{std::move(name)}); }
  static JinjaValue none() { return JinjaValue(nullptr); }
  static JinjaValue boolean(bool value) { return JinjaValue(value); }
  static JinjaValue integer(std::int64_t value) { return JinjaValue(value); }
  static JinjaValue number(double value) { return JinjaValue(value); }
  static JinjaValue text(MarkedText value);
  static JinjaValue text(std::string_view bytes, TextAuthor author) {
    return text(MarkedText(bytes, author));
  }
  /// Both throw JinjaFault beyond kMaxDepth.
  static JinjaValue list(JinjaList items);
  static JinjaValue object(JinjaObject entries);
  static JinjaValue of(JinjaNamespace* value) { return JinjaValue(value); }
  static JinjaValue of(JinjaLoop* value) { return JinjaValue(value); }
  static JinjaValue of(JinjaFunction value) { return JinjaValue(value); }
  static JinjaValue of(Macro value) { return JinjaValue(value); }

  bool is_undefined() const { return holds<Undefined>(); }
  bool is_none() const { return holds<std::nullptr_t>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_integer() const { return holds<std::int64_t>(); }
  bool is_float() const { return holds<double>(); }
  /// As in Python, booleans are numbers.
  bool is_number() const { return is_integer() || is_float() || is_boolean(); }
  bool is_whole() const { return is_integer() || is_boolean(); }
  bool is_text() const { return holds<TextPointer>(); }
  bool is_list() const { return holds<Nest<JinjaList>>(); }
  bool is_object() const { return holds<Nest<JinjaObject>>(); }
  bool is_callable() const { return holds<JinjaFunction>() || holds<Macro>(); }

  // Contents of a value of that kind.
  const std::string& missing_name() const { return std::get<Undefined>(value_).name; }
  std::int64_t whole() const;
  double real() const;
  const MarkedText& text() const { return *std::get<TextPointer>(value_); }
  const std::string& bytes() const { return text().bytes(); }
  const JinjaList& list() const { return *std::get<Nest<JinjaList>>(value_).items; }
  const std::shared_ptr<const JinjaList>& shared_list() const {
    return std::get<Nest<JinjaList>>(value_).items;
  }
  const JinjaObject& object() const { return *std::get<Nest<JinjaObject>>(value_).items; }

  // Null for another kind.
  JinjaNamespace* as_namespace() const { return get_or_null<JinjaNamespace*>(); }
  JinjaLoop* as_loop() const { return get_or_null<JinjaLoop*>(); }
  const JinjaFunction* as_function() const { return std::get_if<JinjaFunction>(&value_); }
  const Macro* as_macro() const { return std::get_if<Macro>(&value_); }

  bool is_true() const;
  /// The value at a key of an object; null if there is none.
  const JinjaValue* find(std::string_view key) const;
  /// "a text", "a list": for messages.
  std::string kind() const;
  int depth() const;

 private:
  using TextPointer = std::shared_ptr<const MarkedText>;
  template <class Items>
  struct Nest {
    std::shared_ptr<const Items> items;
    int depth = 1;
  };
  using Any =
      std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, TextPointer, Nest<JinjaList>,
                   Nest<JinjaObject>, JinjaNamespace*, JinjaLoop*, JinjaFunction, Macro>;

  explicit JinjaValue(Any value) : value_(std::move(value)) {}
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  T get_or_null() const {
    const T* const found = std::get_if<T>(&value_);
    return found == nullptr ? nullptr : *found;
  }

  Any value_;
};

}  // namespace moh
