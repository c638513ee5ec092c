#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/base/jinja/jinja_calls.h"
#include "train/base/jinja/jinja_syntax.h"
#include "train/base/jinja/jinja_template.h"

namespace moh {

/// One rendering of a template.
class JinjaEvaluator {
 public:
  JinjaEvaluator(const JinjaTemplate::Variables& variables, std::time_t now, const JinjaLimits& limits);

  /// Runs the statements and returns what they wrote. Throws JinjaFault; line() is then the place.
  MarkedText run(const JinjaBody& body);
  int line() const { return line_; }

 private:
  using Scope = std::vector<std::pair<std::string, JinjaValue>>;
  enum class Flow { kNext, kBreak, kContinue };
  class Nested;

  Flow execute(const JinjaBody& body);
  Flow execute(const JinjaStatement& statement);
  Flow execute_if(const JinjaStatement& statement);
  Flow execute_for(const JinjaStatement& statement);
  /// The items of a loop, those that pass its condition.
  std::shared_ptr<const JinjaList> items_of(const JinjaStatement& loop);
  void execute_set(const JinjaStatement& statement);
  /// The text that a body writes in a scope of its own.
  MarkedText captured(const JinjaBody& body);
  void write(const JinjaValue& value);

  JinjaValue evaluate(const JinjaExpression& expression);
  JinjaValue evaluate_part(const JinjaExpression& expression, std::size_t index);
  JinjaValue attribute(const JinjaExpression& expression);
  JinjaValue slice(const JinjaExpression& expression);
  JinjaValue object(const JinjaExpression& expression);
  JinjaValue concatenated(const JinjaExpression& expression);
  JinjaValue compared(const JinjaExpression& expression);
  JinjaValue negated(const JinjaValue& value);
  JinjaValue operation(const JinjaExpression& expression);
  JinjaValue call(const JinjaExpression& expression);
  JinjaValue call_function(JinjaFunction function, const JinjaArguments& arguments);
  JinjaValue call_macro(const JinjaStatement& macro, const JinjaArguments& arguments);
  JinjaArguments arguments(const JinjaExpression& call);
  JinjaValue range(const JinjaCall& call);
  JinjaValue of_loop(const JinjaLoop& loop, const std::string& name) const;
  /// An attribute of a value, which must not be undefined.
  JinjaValue attribute_of(const JinjaValue& owner, const std::string& name);

  JinjaValue lookup(const std::string& name) const;
  void assign(const std::string& name, JinjaValue value);
  /// Names for the parts of a value, or for the value itself.
  void assign_all(const std::vector<std::string>& names, const JinjaValue& value);

  const std::time_t now_;
  JinjaBudget budget_;
  std::int64_t output_left_;
  std::vector<Scope> scopes_;    // the given variables, those of the template, and those of what runs
  std::size_t first_scope_ = 2;  // of the macro that runs
  std::deque<JinjaNamespace> namespaces_;
  std::deque<JinjaLoop> loops_;
  MarkedText out_;
  int line_ = 1, nesting_ = 0;
};

}  // namespace moh
