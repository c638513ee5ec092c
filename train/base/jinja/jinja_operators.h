#pragma once

#include <string_view>

#include "train/base/jinja/jinja_calls.h"
#include "train/base/jinja/jinja_value.h"

namespace moh {

/// Python's ==. What it looks at counts as steps.
bool jinja_equal(const JinjaValue& a, const JinjaValue& b, JinjaBudget& budget);
/// Python's <. Throws JinjaFault for values without an order.
bool jinja_less(const JinjaValue& a, const JinjaValue& b);
/// The comparison of that operator: "==", "<=", "not in" ...
bool jinja_compare(std::string_view name, const JinjaValue& a, const JinjaValue& b, JinjaBudget& budget);
/// a + b, and so on for -, *, /, //, %, **. Throws JinjaFault for values without it, and for integers that do
/// not fit 64 bits.
JinjaValue jinja_arithmetic(std::string_view name, const JinjaValue& a, const JinjaValue& b,
                            JinjaBudget& budget);
/// owner[index] for texts, lists and objects, undefined where there is no such item.
JinjaValue jinja_item(const JinjaValue& owner, const JinjaValue& index, JinjaBudget& budget);
/// owner[begin:end:step] for texts and lists; none stands for what is left out.
JinjaValue jinja_slice(const JinjaValue& owner, const JinjaValue& begin, const JinjaValue& end,
                       const JinjaValue& step, JinjaBudget& budget);
/// The items of what can be iterated: those of a list, the keys of an object, the characters of a text, none
/// of what is undefined. Throws JinjaFault for other values.
JinjaList jinja_items(const JinjaValue& value, JinjaBudget& budget);
/// Python's str().
MarkedText jinja_text(const JinjaValue& value, JinjaBudget& budget);
/// json.dumps() with ensure_ascii=False, and `separators` for items and keys. indent < 0: one line.
MarkedText jinja_json(const JinjaValue& value, std::int64_t indent, std::string_view between_items,
                      std::string_view after_key, JinjaBudget& budget);
/// repr() of a float, which is also its text.
std::string jinja_float(double value);

}  // namespace moh
