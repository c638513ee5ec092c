#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/tasks/language/benchmark/field_value.h"

namespace moh {

/// Text in which {{ ... }} stands for values of a record. Nothing is executed: an expression is
///
///   alternative // alternative ...     the first whose fields the record has
///
/// an alternative a field (name, name.name, name[0]), a text ('...' as it is, "..." with JSON's escapes) or a
/// number, and what follows it after | is applied from left to right:
///
///   strip, lstrip, rstrip              without white space at both ends, at the beginning, at the end
///   capitalize                         the first letter upper case, the others lower case
///   append(a, ...)                     followed by a, ...
///   replace(a, b)                      each a becomes b
///   regex_replace(expression, b)       each match becomes b, in which $1 is the first group
///   before(a), after(a)                up to the first a, what follows it; the text has to have one
///   before_last(a), after_last(a)      the same for the last a; nothing and the whole text without one
///   split(a), join(a)                  the parts between a; the parts with a in between
///   keys, values                       of a map, as lists
///   index(value, ...)                  position of what is before | among the values, lists being spread
///
/// Functions of texts that are applied to a list are applied to each of its items; a name after a list of
/// maps is the list of their values. Where a template is one expression alone, its value may be a list or a
/// map; in text it is a text, a number or a truth value.
class TextTemplate {
 public:
  TextTemplate() = default;  ///< the empty text
  /// Throws ConfigError without a place, "expected a name of a function, found ... at byte 12".
  explicit TextTemplate(std::string_view text);

  bool empty() const { return parts_.empty(); }
  /// Throws DataError, naming `where`, for a field that the record lacks and a value that a function or text
  /// does not take.
  FieldValue value(const FieldValue& record, const std::string& where) const;
  std::string text(const FieldValue& record, const std::string& where) const;

 private:
  class Parser;
  class Evaluation;
  struct Expression;
  struct Part {
    std::string text;
    std::shared_ptr<const Expression> expression;  ///< null: the text
  };

  std::vector<Part> parts_;
};

}  // namespace moh
