#include "train/base/jinja/jinja_evaluator.h"

#include <algorithm>
#include <utility>

#include "train/base/io/printable.h"
#include "train/base/jinja/jinja_operators.h"

namespace moh {

namespace {

using Expression = JinjaExpression;
using Statement = JinjaStatement;

constexpr std::pair<std::string_view, JinjaFunction> kFunctions[] = {
    {"dict", JinjaFunction::kDict},
    {"namespace", JinjaFunction::kNamespace},
    {"raise_exception", JinjaFunction::kRaiseException},
    {"range", JinjaFunction::kRange},
    {"strftime_now", JinjaFunction::kStrftimeNow}};

std::string formatted_time(const std::string& format, std::time_t now) {
  std::tm parts{};
  char text[256];
  ::localtime_r(&now, &parts);
  const std::size_t size = std::strftime(text, sizeof text, format.c_str(), &parts);
  if (size == 0 && !format.empty())
    throw JinjaFault("strftime_now: expected a format of less than 256 characters of time");
  return {text, size};
}

}  // namespace

/// Counts calls within one another.
class JinjaEvaluator::Nested {
 public:
  explicit Nested(JinjaEvaluator& evaluator) : evaluator_(evaluator) {
    constexpr int kMost = 1000;
    if (++evaluator_.nesting_ > kMost) {
      --evaluator_.nesting_;
      throw JinjaFault("expected macros and statements within one another at most 1000 deep, found more");
    }
    evaluator_.budget_.step();
  }
  ~Nested() { --evaluator_.nesting_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  JinjaEvaluator& evaluator_;
};

JinjaEvaluator::JinjaEvaluator(const JinjaTemplate::Variables& variables, std::time_t now,
                               const JinjaLimits& limits)
    : now_(now), budget_(limits.steps, limits.bytes), output_left_(limits.output), scopes_(2) {
  for (const auto& [name, function] : kFunctions) scopes_[0].emplace_back(name, JinjaValue::of(function));
  for (const auto& [name, value] : variables) scopes_[0].emplace_back(name, value);
}

MarkedText JinjaEvaluator::run(const JinjaBody& body) {
  execute(body);
  return std::move(out_);
}

// Statements.

JinjaEvaluator::Flow JinjaEvaluator::execute(const JinjaBody& body) {
  for (const auto& statement : body) {
    if (const Flow flow = execute(*statement); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

JinjaEvaluator::Flow JinjaEvaluator::execute(const Statement& statement) {
  const Nested nested(*this);
  line_ = statement.line;
  switch (statement.kind) {
    case Statement::Kind::kText:
      write(statement.constant);
      break;
    case Statement::Kind::kOutput:
      write(evaluate(*statement.expressions[0]));
      break;
    case Statement::Kind::kIf:
      return execute_if(statement);
    case Statement::Kind::kFor:
      return execute_for(statement);
    case Statement::Kind::kSet:
      execute_set(statement);
      break;
    case Statement::Kind::kSetBlock:
      assign(statement.names[0], JinjaValue::text(captured(statement.bodies[0])));
      break;
    case Statement::Kind::kMacro:
      assign(statement.name, JinjaValue::of(JinjaValue::Macro{&statement}));
      break;
    case Statement::Kind::kScope: {
      scopes_.emplace_back();
      const Flow flow = execute(statement.bodies[0]);
      scopes_.pop_back();
      return flow;
    }
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void JinjaEvaluator::write(const JinjaValue& value) {
  const MarkedText text = jinja_text(value, budget_);
  const auto size = static_cast<std::int64_t>(text.size());
  if (size > output_left_) throw JinjaFault("expected a rendering within the limit of output, found more");
  output_left_ -= size;
  out_.append(text);
}

JinjaEvaluator::Flow JinjaEvaluator::execute_if(const Statement& statement) {
  for (std::size_t i = 0; i < statement.expressions.size(); ++i) {
    if (evaluate(*statement.expressions[i]).is_true()) return execute(statement.bodies[i]);
  }
  const bool has_else = statement.bodies.size() > statement.expressions.size();
  return has_else ? execute(statement.bodies.back()) : Flow::kNext;
}

std::shared_ptr<const JinjaList> JinjaEvaluator::items_of(const Statement& loop) {
  const JinjaValue value = evaluate(*loop.expressions[0]);
  const JinjaExpressionPointer& condition = loop.expressions[1];
  if (condition == nullptr && value.is_list()) return value.shared_list();
  JinjaList items = jinja_items(value, budget_);
  if (condition != nullptr) {
    std::erase_if(items, [&](const JinjaValue& item) {
      scopes_.emplace_back();
      assign_all(loop.names, item);
      const bool keeps = evaluate(*condition).is_true();
      scopes_.pop_back();
      return !keeps;
    });
  }
  return std::make_shared<const JinjaList>(std::move(items));
}

JinjaEvaluator::Flow JinjaEvaluator::execute_for(const Statement& statement) {
  std::shared_ptr<const JinjaList> items = items_of(statement);
  if (items->empty()) return statement.bodies.size() > 1 ? execute(statement.bodies[1]) : Flow::kNext;
  budget_.bytes(sizeof(JinjaLoop));
  JinjaLoop& loop = loops_.emplace_back(JinjaLoop{std::move(items), 0});
  for (; loop.index < loop.items->size(); ++loop.index) {
    scopes_.emplace_back();
    assign("loop", JinjaValue::of(&loop));
    assign_all(statement.names, (*loop.items)[loop.index]);
    const Flow flow = execute(statement.bodies[0]);
    scopes_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void JinjaEvaluator::execute_set(const Statement& statement) {
  JinjaValue value = evaluate(*statement.expressions[0]);
  if (statement.attribute.empty()) return assign_all(statement.names, value);
  JinjaNamespace* const owner = lookup(statement.names[0]).as_namespace();
  if (owner == nullptr)
    throw JinjaFault("expected '" + statement.names[0] +
                     "' to be a namespace, as only their attributes can be set");
  budget_.items(2);
  for (auto& [name, old] : owner->variables) {
    if (name == statement.attribute) {
      old = std::move(value);
      return;
    }
  }
  owner->variables.emplace_back(statement.attribute, std::move(value));
}

MarkedText JinjaEvaluator::captured(const JinjaBody& body) {
  MarkedText outer = std::exchange(out_, {});
  scopes_.emplace_back();
  execute(body);
  scopes_.pop_back();
  budget_.bytes(2 * out_.size());
  return std::exchange(out_, std::move(outer));
}

// Variables.

JinjaValue JinjaEvaluator::lookup(const std::string& name) const {
  const auto find_in = [&](const Scope& scope) {
    const auto found =
        std::ranges::find(scope.rbegin(), scope.rend(), name, [](const auto& entry) { return entry.first; });
    return found == scope.rend() ? nullptr : &found->second;
  };
  for (std::size_t i = scopes_.size(); i > first_scope_; --i) {
    if (const JinjaValue* const found = find_in(scopes_[i - 1])) return *found;
  }
  for (const std::size_t i : {1, 0}) {
    if (const JinjaValue* const found = find_in(scopes_[i])) return *found;
  }
  return JinjaValue::undefined(name);
}

void JinjaEvaluator::assign(const std::string& name, JinjaValue value) {
  budget_.step(scopes_.back().size() / 4);
  for (auto& [known, old] : scopes_.back()) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  scopes_.back().emplace_back(name, std::move(value));
}

void JinjaEvaluator::assign_all(const std::vector<std::string>& names, const JinjaValue& value) {
  if (names.size() == 1) return assign(names[0], value);
  const JinjaList parts = jinja_items(value, budget_);
  if (parts.size() != names.size())
    throw JinjaFault("expected " + std::to_string(names.size()) + " values for as many names, found " +
                     std::to_string(parts.size()));
  for (std::size_t i = 0; i < names.size(); ++i) assign(names[i], parts[i]);
}

// Expressions.

JinjaValue JinjaEvaluator::evaluate_part(const Expression& expression, std::size_t index) {
  return evaluate(*expression.parts[index]);
}

JinjaValue JinjaEvaluator::evaluate(const Expression& expression) {
  const Nested nested(*this);
  line_ = expression.line;
  const auto part = [&](std::size_t index) { return evaluate_part(expression, index); };
  switch (expression.kind) {
    case Expression::Kind::kConstant:
      return expression.constant;
    case Expression::Kind::kName:
      return lookup(expression.name);
    case Expression::Kind::kList: {
      JinjaList items;
      for (const auto& item : expression.parts) items.push_back(evaluate(*item));
      budget_.items(items.size());
      return JinjaValue::list(std::move(items));
    }
    case Expression::Kind::kObject:
      return object(expression);
    case Expression::Kind::kAttribute:
    case Expression::Kind::kItem:
      return attribute(expression);
    case Expression::Kind::kSlice:
      return slice(expression);
    case Expression::Kind::kCall:
      return call(expression);
    case Expression::Kind::kFilter:
    case Expression::Kind::kTest:
      return operation(expression);
    case Expression::Kind::kNot:
      return JinjaValue::boolean(!part(0).is_true());
    case Expression::Kind::kNegative:
      return negated(part(0));
    case Expression::Kind::kPositive:
      return part(0);
    case Expression::Kind::kAnd: {
      JinjaValue left = part(0);
      return left.is_true() ? part(1) : left;
    }
    case Expression::Kind::kOr: {
      JinjaValue left = part(0);
      return left.is_true() ? left : part(1);
    }
    case Expression::Kind::kArithmetic: {
      const JinjaValue left = part(0);
      return jinja_arithmetic(expression.name, left, part(1), budget_);
    }
    case Expression::Kind::kConcatenate:
      return concatenated(expression);
    case Expression::Kind::kCompare:
      return compared(expression);
    case Expression::Kind::kConditional:
      if (part(0).is_true()) return part(1);
      return expression.parts[2] == nullptr ? JinjaValue() : part(2);
  }
  return {};
}

JinjaValue JinjaEvaluator::object(const Expression& expression) {
  JinjaObject entries;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    JinjaValue key = evaluate_part(expression, i);
    if (!key.is_text()) throw JinjaFault("expected texts as keys of an object, found " + key.kind());
    JinjaValue value = evaluate_part(expression, i + 1);
    budget_.step(entries.size() / 4);
    const auto old =
        std::ranges::find_if(entries, [&](const auto& entry) { return entry.first.bytes() == key.bytes(); });
    if (old != entries.end()) {
      old->second = std::move(value);
    } else {
      entries.emplace_back(std::move(key), std::move(value));
    }
  }
  budget_.items(2 * entries.size());
  return JinjaValue::object(std::move(entries));
}

JinjaValue JinjaEvaluator::of_loop(const JinjaLoop& loop, const std::string& name) const {
  const auto index = static_cast<std::int64_t>(loop.index), size = std::ssize(*loop.items);
  if (name == "index") return JinjaValue::integer(index + 1);
  if (name == "index0") return JinjaValue::integer(index);
  if (name == "revindex") return JinjaValue::integer(size - index);
  if (name == "revindex0") return JinjaValue::integer(size - index - 1);
  if (name == "length") return JinjaValue::integer(size);
  if (name == "first") return JinjaValue::boolean(index == 0);
  if (name == "last") return JinjaValue::boolean(index + 1 == size);
  if (name == "previtem" && index > 0) return (*loop.items)[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return (*loop.items)[loop.index + 1];
  return JinjaValue::undefined("loop." + name);
}

JinjaValue JinjaEvaluator::attribute_of(const JinjaValue& owner, const std::string& name) {
  if (owner.is_undefined())
    throw JinjaFault("expected a value with the attribute '" + printable(name, 40) + "', found " +
                     owner.kind());
  if (const JinjaLoop* const loop = owner.as_loop()) return of_loop(*loop, name);
  if (const JinjaNamespace* const space = owner.as_namespace()) {
    const auto found =
        std::ranges::find(space->variables, name, [](const auto& entry) { return entry.first; });
    return found == space->variables.end() ? JinjaValue::undefined(name) : found->second;
  }
  return jinja_item(owner, JinjaValue::text(name, TextAuthor::kTemplate), budget_);
}

JinjaValue JinjaEvaluator::attribute(const Expression& expression) {
  const JinjaValue owner = evaluate_part(expression, 0);
  if (expression.kind == Expression::Kind::kAttribute) return attribute_of(owner, expression.name);
  const JinjaValue index = evaluate_part(expression, 1);
  if (index.is_text()) return attribute_of(owner, index.bytes());
  if (owner.is_undefined()) throw JinjaFault("expected a value with items, found " + owner.kind());
  return jinja_item(owner, index, budget_);
}

JinjaValue JinjaEvaluator::slice(const Expression& expression) {
  const auto part = [&](std::size_t index) {
    return expression.parts[index] == nullptr ? JinjaValue::none() : evaluate_part(expression, index);
  };
  const JinjaValue owner = part(0), begin = part(1), end = part(2);
  return jinja_slice(owner, begin, end, part(3), budget_);
}

JinjaValue JinjaEvaluator::concatenated(const Expression& expression) {
  MarkedText whole;
  for (const auto& part : expression.parts) {
    const MarkedText text = jinja_text(evaluate(*part), budget_);
    budget_.bytes(2 * text.size());
    whole.append(text);
  }
  return JinjaValue::text(std::move(whole));
}

JinjaValue JinjaEvaluator::compared(const Expression& expression) {
  JinjaValue left = evaluate_part(expression, 0);
  for (std::size_t i = 0; i < expression.names.size(); ++i) {
    JinjaValue right = evaluate_part(expression, i + 1);
    if (!jinja_compare(expression.names[i], left, right, budget_)) return JinjaValue::boolean(false);
    left = std::move(right);
  }
  return JinjaValue::boolean(true);
}

JinjaValue JinjaEvaluator::negated(const JinjaValue& value) {
  if (!value.is_number()) throw JinjaFault("expected a number after '-', found " + value.kind());
  if (value.is_float()) return JinjaValue::number(-value.real());
  return jinja_arithmetic("-", JinjaValue::integer(0), value, budget_);
}

JinjaArguments JinjaEvaluator::arguments(const Expression& call) {
  JinjaArguments given;
  const std::size_t first_named = call.parts.size() - call.names.size();
  for (std::size_t i = 1; i < first_named; ++i) given.values.push_back(evaluate_part(call, i));
  for (std::size_t i = first_named; i < call.parts.size(); ++i)
    given.named.emplace_back(call.names[i - first_named], evaluate_part(call, i));
  return given;
}

JinjaValue JinjaEvaluator::operation(const Expression& expression) {
  JinjaValue subject = evaluate_part(expression, 0);
  return expression.apply(JinjaCall(expression.name, std::move(subject), arguments(expression), budget_));
}

JinjaValue JinjaEvaluator::call(const Expression& expression) {
  const Expression& callee = *expression.parts[0];
  JinjaValue value;
  if (callee.kind == Expression::Kind::kAttribute) {
    const JinjaValue owner = evaluate_part(callee, 0);
    const JinjaOperation method = owner.is_text()     ? find_jinja_text_method(callee.name)
                                  : owner.is_object() ? find_jinja_object_method(callee.name)
                                                      : nullptr;
    if (method != nullptr) return method(JinjaCall(callee.name, owner, arguments(expression), budget_));
    if (owner.is_text() || owner.is_list() || owner.is_object())
      throw JinjaFault("expected a known method of " + owner.kind() + ", found '" + callee.name + "'");
    value = attribute_of(owner, callee.name);
  } else {
    value = evaluate(callee);
  }
  const JinjaArguments given = arguments(expression);
  if (const JinjaFunction* const function = value.as_function()) return call_function(*function, given);
  if (const JinjaValue::Macro* const macro = value.as_macro()) return call_macro(*macro->definition, given);
  throw JinjaFault("expected a function, found " + value.kind());
}

JinjaValue JinjaEvaluator::range(const JinjaCall& call) {
  call.expect({"begin", "end", "step"});
  const bool one = call.argument(1) == nullptr;
  call.required(0);
  const std::int64_t begin = one ? 0 : call.whole(0, "", 0), end = call.whole(one ? 0 : 1, "", 0);
  const std::int64_t step = call.whole(2, "", 1);
  constexpr std::int64_t kMost = 100'000;  // of Jinja's sandbox
  if (step == 0) throw JinjaFault("range: expected a step other than 0");
  JinjaList items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (std::ssize(items) == kMost) throw JinjaFault("range: expected at most 100000 integers, found more");
    items.push_back(JinjaValue::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return call.made(std::move(items));
}

JinjaValue JinjaEvaluator::call_function(JinjaFunction function, const JinjaArguments& given) {
  const auto call = [&](std::string_view name) { return JinjaCall(name, JinjaValue(), given, budget_); };
  switch (function) {
    case JinjaFunction::kRaiseException: {
      const JinjaCall raise = call("raise_exception");
      raise.expect({"message"});
      throw JinjaFault(jinja_text(raise.required(0, "message"), budget_).bytes(), /*raised=*/true);
    }
    case JinjaFunction::kRange:
      return range(call("range"));
    case JinjaFunction::kStrftimeNow: {
      const JinjaCall time = call("strftime_now");
      time.expect({"format"});
      return JinjaValue::text(formatted_time(time.text(0, "format").bytes(), now_), TextAuthor::kTemplate);
    }
    case JinjaFunction::kNamespace:
    case JinjaFunction::kDict:
      break;
  }
  if (!given.values.empty()) throw JinjaFault("namespace, dict: expected arguments with names alone");
  budget_.items(2 * given.named.size() + 2);
  if (function == JinjaFunction::kNamespace) {
    namespaces_.push_back({given.named});
    return JinjaValue::of(&namespaces_.back());
  }
  JinjaObject entries;
  for (const auto& [name, value] : given.named)
    entries.emplace_back(JinjaValue::text(name, TextAuthor::kTemplate), value);
  return JinjaValue::object(std::move(entries));
}

JinjaValue JinjaEvaluator::call_macro(const Statement& macro, const JinjaArguments& given) {
  const std::size_t required = macro.names.size() - macro.expressions.size();
  if (given.values.size() > macro.names.size())
    throw JinjaFault("macro " + macro.name + ": expected at most " + std::to_string(macro.names.size()) +
                     " arguments, found " + std::to_string(given.values.size()));
  for (const auto& [name, value] : given.named) {
    if (std::ranges::find(macro.names, name) == macro.names.end())
      throw JinjaFault("macro " + macro.name + ": expected no argument of the name '" + name + "'");
  }
  Scope scope;
  for (std::size_t i = 0; i < macro.names.size(); ++i) {
    const std::string& name = macro.names[i];
    const auto named = std::ranges::find(given.named, name, [](const auto& entry) { return entry.first; });
    if (i < given.values.size()) {
      scope.emplace_back(name, given.values[i]);
    } else if (named != given.named.end()) {
      scope.emplace_back(name, named->second);
    } else {
      scope.emplace_back(
          name, i < required ? JinjaValue::undefined(name) : evaluate(*macro.expressions[i - required]));
    }
  }
  const std::size_t caller = std::exchange(first_scope_, scopes_.size());
  scopes_.push_back(std::move(scope));
  JinjaValue text = JinjaValue::text(captured(macro.bodies[0]));
  scopes_.pop_back();
  first_scope_ = caller;
  return text;
}

}  // namespace moh
