#include "train/base/jinja/jinja_operators.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace moh {

namespace {

JinjaFault no_operator(std::string_view name, const JinjaValue& a, const JinjaValue& b) {
  return JinjaFault("expected values with the operator '" + std::string(name) + "', found " + a.kind() +
                    " and " + b.kind());
}

bool equal_lists(const JinjaList& a, const JinjaList& b, JinjaBudget& budget) {
  return std::ranges::equal(a, b, [&](const auto& x, const auto& y) { return jinja_equal(x, y, budget); });
}

bool equal_objects(const JinjaValue& a, const JinjaValue& b, JinjaBudget& budget) {
  if (a.object().size() != b.object().size()) return false;
  return std::ranges::all_of(a.object(), [&](const auto& entry) {
    budget.step(b.object().size());
    const JinjaValue* const other = b.find(entry.first.bytes());
    return other != nullptr && jinja_equal(entry.second, *other, budget);
  });
}

bool contains(const JinjaValue& whole, const JinjaValue& part, JinjaBudget& budget) {
  if (whole.is_text()) {
    if (!part.is_text()) throw no_operator("in", part, whole);
    budget.step(whole.bytes().size() / 16);
    return whole.bytes().find(part.bytes()) != std::string::npos;
  }
  if (whole.is_object()) {
    budget.step(whole.object().size());
    return part.is_text() && whole.find(part.bytes()) != nullptr;
  }
  if (whole.is_undefined()) return false;
  if (!whole.is_list()) throw no_operator("in", part, whole);
  return std::ranges::any_of(whole.list(), [&](const auto& item) { return jinja_equal(item, part, budget); });
}

JinjaValue whole_arithmetic(std::string_view name, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  if (name == "+") overflows = __builtin_add_overflow(a, b, &result);
  if (name == "-") overflows = __builtin_sub_overflow(a, b, &result);
  if (name == "*") overflows = __builtin_mul_overflow(a, b, &result);
  if (name == "//" || name == "%") {
    overflows = b == -1 && a == std::numeric_limits<std::int64_t>::min();
    if (!overflows) {
      const std::int64_t rest = a % b,
                         floor = a / b - static_cast<std::int64_t>(rest != 0 && (rest < 0) != (b < 0));
      result = name == "//" ? floor : a - floor * b;
    }
  }
  if (overflows) throw JinjaFault("expected an integer that fits 64 bits, found a larger one");
  return JinjaValue::integer(result);
}

JinjaValue number_arithmetic(std::string_view name, const JinjaValue& a, const JinjaValue& b) {
  if ((name == "/" || name == "//" || name == "%") && b.real() == 0)
    throw JinjaFault("expected a divisor other than 0");
  if (a.is_whole() && b.is_whole() && name != "/" && name != "**")
    return whole_arithmetic(name, a.whole(), b.whole());
  const double x = a.real(), y = b.real();
  if (name == "+") return JinjaValue::number(x + y);
  if (name == "-") return JinjaValue::number(x - y);
  if (name == "*") return JinjaValue::number(x * y);
  if (name == "/") return JinjaValue::number(x / y);
  if (name == "//") return JinjaValue::number(std::floor(x / y));
  if (name == "%") return JinjaValue::number(x - y * std::floor(x / y));
  const double power = std::pow(x, y);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool is_whole = a.is_whole() && b.is_whole() && y >= 0;
  if (is_whole && std::abs(power) > kExact) throw JinjaFault("expected a power of at most 2 ** 53");
  return is_whole ? JinjaValue::integer(static_cast<std::int64_t>(power)) : JinjaValue::number(power);
}

JinjaValue repeated(const MarkedText& text, std::int64_t count, JinjaBudget& budget) {
  MarkedText whole;
  for (std::int64_t i = 0; i < count && !text.empty(); ++i) {
    budget.step();
    budget.bytes(2 * text.size());
    whole.append(text);
  }
  return JinjaValue::text(std::move(whole));
}

JinjaValue joined(const JinjaValue& a, const JinjaValue& b, JinjaBudget& budget) {
  if (a.is_text()) {
    budget.bytes(2 * (a.text().size() + b.text().size()));
    MarkedText whole = a.text();
    whole.append(b.text());
    return JinjaValue::text(std::move(whole));
  }
  budget.items(a.list().size() + b.list().size());
  JinjaList whole = a.list();
  whole.insert(whole.end(), b.list().begin(), b.list().end());
  return JinjaValue::list(std::move(whole));
}

/// The places of a slice, as Python's slice.indices() finds them.
struct Slice {
  std::int64_t begin = 0, end = 0, step = 1;
};

Slice slice_of(std::int64_t size, const JinjaValue& begin, const JinjaValue& end, const JinjaValue& step) {
  const auto given = [](const JinjaValue& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    if (!value.is_whole()) throw JinjaFault("expected integers in a slice, found " + value.kind());
    return value.whole();
  };
  Slice slice;
  slice.step = std::clamp<std::int64_t>(given(step, 1), -(std::int64_t{1} << 40), std::int64_t{1} << 40);
  if (slice.step == 0) throw JinjaFault("expected a step other than 0 in a slice");
  const bool down = slice.step < 0;
  const std::int64_t least = down ? -1 : 0, most = down ? size - 1 : size;
  const auto place = [&](const JinjaValue& value, std::int64_t otherwise) {
    std::int64_t at = given(value, otherwise);
    if (!value.is_none() && at < 0) at = at < -size ? least : at + size;
    return std::clamp(at, least, most);
  };
  slice.begin = place(begin, down ? most : least);
  slice.end = place(end, down ? least : most);
  return slice;
}

}  // namespace

bool jinja_equal(const JinjaValue& a, const JinjaValue& b, JinjaBudget& budget) {
  budget.step();
  if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.is_text() && b.is_text()) return a.bytes() == b.bytes();
  if (a.is_list() && b.is_list()) return equal_lists(a.list(), b.list(), budget);
  if (a.is_object() && b.is_object()) return equal_objects(a, b, budget);
  if (a.as_namespace() != nullptr) return a.as_namespace() == b.as_namespace();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool jinja_less(const JinjaValue& a, const JinjaValue& b) {
  if (a.is_whole() && b.is_whole()) return a.whole() < b.whole();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.is_text() && b.is_text()) return a.bytes() < b.bytes();
  throw no_operator("<", a, b);
}

bool jinja_compare(std::string_view name, const JinjaValue& a, const JinjaValue& b, JinjaBudget& budget) {
  if (name == "==") return jinja_equal(a, b, budget);
  if (name == "!=") return !jinja_equal(a, b, budget);
  if (name == "in") return contains(b, a, budget);
  if (name == "not in") return !contains(b, a, budget);
  if (name == "<") return jinja_less(a, b);
  if (name == ">") return jinja_less(b, a);
  return name == "<=" ? jinja_less(a, b) || jinja_equal(a, b, budget)
                      : jinja_less(b, a) || jinja_equal(a, b, budget);
}

JinjaValue jinja_arithmetic(std::string_view name, const JinjaValue& a, const JinjaValue& b,
                            JinjaBudget& budget) {
  if (a.is_number() && b.is_number()) return number_arithmetic(name, a, b);
  const bool joins = (a.is_text() && b.is_text()) || (a.is_list() && b.is_list());
  if (name == "+" && joins) return joined(a, b, budget);
  if (name == "*" && a.is_text() && b.is_whole()) return repeated(a.text(), b.whole(), budget);
  if (name == "*" && a.is_whole() && b.is_text()) return repeated(b.text(), a.whole(), budget);
  throw no_operator(name, a, b);
}

JinjaValue jinja_item(const JinjaValue& owner, const JinjaValue& index, JinjaBudget& budget) {
  if (owner.is_object()) {
    budget.step(owner.object().size());
    const JinjaValue* const found = index.is_text() ? owner.find(index.bytes()) : nullptr;
    return found != nullptr ? *found
                            : JinjaValue::undefined(index.is_text() ? index.bytes().substr(0, 40) : "");
  }
  if (!index.is_whole()) return JinjaValue::undefined(index.is_text() ? index.bytes().substr(0, 40) : "");
  const std::int64_t at = index.whole();
  if (owner.is_list()) {
    const std::int64_t size = std::ssize(owner.list());
    if (at < -size || at >= size) return {};
    return owner.list()[static_cast<std::size_t>(at < 0 ? at + size : at)];
  }
  if (!owner.is_text()) return {};
  budget.step(owner.bytes().size() / 8);
  const std::vector<std::size_t> places = character_places(owner.bytes());
  const std::int64_t size = std::ssize(places) - 1;
  if (at < -size || at >= size) return {};
  const auto place = static_cast<std::size_t>(at < 0 ? at + size : at);
  return JinjaValue::text(owner.text().part(places[place], places[place + 1]));
}

JinjaValue jinja_slice(const JinjaValue& owner, const JinjaValue& begin, const JinjaValue& end,
                       const JinjaValue& step, JinjaBudget& budget) {
  if (!owner.is_text() && !owner.is_list())
    throw JinjaFault("expected a text or a list to slice, found " + owner.kind());
  std::vector<std::size_t> places;
  if (owner.is_text()) {
    budget.step(owner.bytes().size() / 8);
    places = character_places(owner.bytes());
  }
  const std::int64_t size = owner.is_list() ? std::ssize(owner.list()) : std::ssize(places) - 1;
  const Slice slice = slice_of(size, begin, end, step);
  MarkedText text;
  JinjaList list;
  for (std::int64_t i = slice.begin; slice.step > 0 ? i < slice.end : i > slice.end; i += slice.step) {
    const auto at = static_cast<std::size_t>(i);
    if (owner.is_list()) {
      list.push_back(owner.list()[at]);
    } else {
      text.append(owner.text(), places[at], places[at + 1]);
    }
  }
  budget.bytes(2 * text.size());
  budget.items(list.size());
  return owner.is_list() ? JinjaValue::list(std::move(list)) : JinjaValue::text(std::move(text));
}

JinjaList jinja_items(const JinjaValue& value, JinjaBudget& budget) {
  if (value.is_undefined()) return {};
  JinjaList items;
  if (value.is_list()) {
    budget.items(value.list().size());
    items = value.list();
  } else if (value.is_object()) {
    budget.items(value.object().size());
    for (const auto& entry : value.object()) items.push_back(entry.first);
  } else if (value.is_text()) {
    const std::vector<std::size_t> places = character_places(value.bytes());
    budget.items(4 * places.size());
    for (std::size_t i = 0; i + 1 < places.size(); ++i)
      items.push_back(JinjaValue::text(value.text().part(places[i], places[i + 1])));
  } else {
    throw JinjaFault("expected a list, an object or a text to iterate over, found " + value.kind());
  }
  return items;
}

std::string jinja_float(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value,
                                 is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(digits, end.ptr);
  if (is_plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace moh
