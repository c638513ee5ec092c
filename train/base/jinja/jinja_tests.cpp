#include <algorithm>

#include "train/base/jinja/jinja_calls.h"
#include "train/base/jinja/jinja_operators.h"

namespace moh {

namespace {

/// A test without arguments.
template <bool (*kHolds)(const JinjaValue&)>
JinjaValue holds(const JinjaCall& call) {
  call.expect({});
  return JinjaValue::boolean(kHolds(call.subject()));
}

bool is_defined(const JinjaValue& value) {
  return !value.is_undefined();
}
bool is_undefined(const JinjaValue& value) {
  return value.is_undefined();
}
bool is_none(const JinjaValue& value) {
  return value.is_none();
}
bool is_boolean(const JinjaValue& value) {
  return value.is_boolean();
}
bool is_true(const JinjaValue& value) {
  return value.is_boolean() && value.is_true();
}
bool is_false(const JinjaValue& value) {
  return value.is_boolean() && !value.is_true();
}
bool is_integer(const JinjaValue& value) {
  return value.is_integer();
}
bool is_float(const JinjaValue& value) {
  return value.is_float();
}
bool is_number(const JinjaValue& value) {
  return value.is_number();
}
bool is_string(const JinjaValue& value) {
  return value.is_text();
}
bool is_mapping(const JinjaValue& value) {
  return value.is_object();
}
bool is_sequence(const JinjaValue& value) {
  return value.is_list() || value.is_text() || value.is_object() || value.is_undefined();
}
bool is_callable(const JinjaValue& value) {
  return value.is_callable();
}

std::int64_t whole_of(const JinjaCall& call) {
  if (!call.subject().is_whole()) call.fail("an integer", call.subject());
  return call.subject().whole();
}

template <std::int64_t kRest>
JinjaValue has_parity(const JinjaCall& call) {
  call.expect({});
  return JinjaValue::boolean((whole_of(call) & 1) == kRest);
}

JinjaValue divisible_by(const JinjaCall& call) {
  call.expect({"num"});
  const std::int64_t divisor = call.whole(0, "num", 0);
  if (divisor == 0) throw JinjaFault("divisibleby: expected a divisor other than 0");
  return JinjaValue::boolean(divisor == -1 || whole_of(call) % divisor == 0);
}

enum class Order { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual, kIn };

template <Order kOrder>
JinjaValue compares(const JinjaCall& call) {
  constexpr const char* kOperators[] = {"==", "!=", "<", "<=", ">", ">=", "in"};
  call.expect({"other"});
  return JinjaValue::boolean(jinja_compare(kOperators[static_cast<std::size_t>(kOrder)], call.subject(),
                                           call.required(0, "other"), call.budget()));
}

template <MarkedText (*kChange)(const MarkedText&)>
JinjaValue has_case(const JinjaCall& call) {
  call.expect({});
  const MarkedText& text = call.subject_text();
  return JinjaValue::boolean(jinja_upper(text).bytes() != jinja_lower(text).bytes() &&
                             kChange(text).bytes() == text.bytes());
}

constexpr std::pair<std::string_view, JinjaOperation> kTests[] = {{"boolean", holds<is_boolean>},
                                                                  {"callable", holds<is_callable>},
                                                                  {"defined", holds<is_defined>},
                                                                  {"divisibleby", divisible_by},
                                                                  {"eq", compares<Order::kEqual>},
                                                                  {"equalto", compares<Order::kEqual>},
                                                                  {"even", has_parity<0>},
                                                                  {"false", holds<is_false>},
                                                                  {"float", holds<is_float>},
                                                                  {"ge", compares<Order::kGreaterOrEqual>},
                                                                  {"gt", compares<Order::kGreater>},
                                                                  {"in", compares<Order::kIn>},
                                                                  {"integer", holds<is_integer>},
                                                                  {"iterable", holds<is_sequence>},
                                                                  {"le", compares<Order::kLessOrEqual>},
                                                                  {"lower", has_case<jinja_lower>},
                                                                  {"lt", compares<Order::kLess>},
                                                                  {"mapping", holds<is_mapping>},
                                                                  {"ne", compares<Order::kNotEqual>},
                                                                  {"none", holds<is_none>},
                                                                  {"number", holds<is_number>},
                                                                  {"odd", has_parity<1>},
                                                                  {"sequence", holds<is_sequence>},
                                                                  {"string", holds<is_string>},
                                                                  {"true", holds<is_true>},
                                                                  {"undefined", holds<is_undefined>},
                                                                  {"upper", has_case<jinja_upper>}};

}  // namespace

JinjaOperation find_jinja_test(std::string_view name) {
  const auto* const found =
      std::ranges::find(kTests, name, &std::pair<std::string_view, JinjaOperation>::first);
  return found == std::end(kTests) ? nullptr : found->second;
}

}  // namespace moh
