#include <algorithm>
#include <charconv>
#include <cmath>

#include "train/base/jinja/jinja_calls.h"
#include "train/base/jinja/jinja_operators.h"

namespace moh {

namespace {

MarkedText text_of(const JinjaCall& call) {
  return jinja_text(call.subject(), call.budget());
}

JinjaValue trim(const JinjaCall& call) {
  call.expect({"chars"});
  const JinjaValue* const chars = call.argument(0, "chars");
  const bool has_chars = chars != nullptr && !chars->is_none();
  return call.made(
      jinja_stripped(text_of(call), JinjaSides::kBoth, has_chars ? &call.text(0, "chars") : nullptr));
}

template <MarkedText (*kChange)(const MarkedText&)>
JinjaValue mapped_text(const JinjaCall& call) {
  call.expect({});
  const MarkedText text = text_of(call);
  call.budget().step(text.size() / 4);
  return call.made(kChange(text));
}

/// Jinja's title: words begin after white space, hyphens and opening brackets.
MarkedText titled(const MarkedText& text) {
  MarkedText result;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool separates = i < text.size() && std::string_view("-({[< \t\n\r\f\v").find(text.bytes()[i]) !=
                                                  std::string_view::npos;
    if (i < text.size() && !separates) continue;
    result.append(jinja_capitalized(text.part(begin, i)));
    if (separates) result.append(text, i, i + 1);
    begin = i + 1;
  }
  return result;
}

JinjaValue string(const JinjaCall& call) {
  call.expect({});
  return call.made(text_of(call));
}

JinjaValue length(const JinjaCall& call) {
  call.expect({});
  const JinjaValue& value = call.subject();
  if (value.is_undefined()) return JinjaValue::integer(0);
  if (value.is_list()) return JinjaValue::integer(std::ssize(value.list()));
  if (value.is_object()) return JinjaValue::integer(std::ssize(value.object()));
  if (!value.is_text()) call.fail("a text, a list or an object", value);
  call.budget().step(value.bytes().size() / 8);
  return JinjaValue::integer(std::ssize(character_places(value.bytes())) - 1);
}

JinjaValue tojson(const JinjaCall& call) {
  call.expect({"ensure_ascii", "indent", "separators", "sort_keys"});
  for (const auto& [position, name] :
       {std::pair<std::size_t, const char*>{0, "ensure_ascii"}, {3, "sort_keys"}}) {
    const JinjaValue* const flag = call.argument(position, name);
    if (flag != nullptr && flag->is_true())
      throw JinjaFault(std::string("tojson: expected no ") + name + ", which is not supported");
  }
  const JinjaValue* const given = call.argument(1, "indent");
  const std::int64_t indent = given == nullptr || given->is_none() ? -1 : call.whole(1, "indent", -1);
  std::string between = indent < 0 ? ", " : ",", after = ": ";
  if (const JinjaValue* const separators = call.argument(2, "separators");
      separators != nullptr && !separators->is_none()) {
    const bool is_pair = separators->is_list() && separators->list().size() == 2 &&
                         separators->list()[0].is_text() && separators->list()[1].is_text();
    if (!is_pair) call.fail("two texts as separators", *separators);
    between = separators->list()[0].bytes();
    after = separators->list()[1].bytes();
  }
  return JinjaValue::text(jinja_json(call.subject(), indent, between, after, call.budget()));
}

/// The value at "a.b" of an item, as of map(attribute="a.b").
JinjaValue attribute_of(JinjaValue item, const JinjaValue& attribute, JinjaBudget& budget) {
  if (!attribute.is_text()) return jinja_item(item, attribute, budget);
  const std::string& path = attribute.bytes();
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    item = jinja_item(item, JinjaValue::text(path.substr(begin, end - begin), TextAuthor::kTemplate), budget);
    begin = end + 1;
  }
  return item;
}

JinjaValue join(const JinjaCall& call) {
  call.expect({"d", "attribute"});
  const JinjaValue* const between = call.argument(0, "d");
  const JinjaValue* const attribute = call.argument(1, "attribute");
  MarkedText result;
  bool first = true;
  const auto add = [&](const JinjaValue& value) {
    const MarkedText text = jinja_text(value, call.budget());
    call.budget().bytes(2 * text.size());
    result.append(text);
  };
  for (const JinjaValue& item : jinja_items(call.subject(), call.budget())) {
    call.budget().step();
    if (!first && between != nullptr) add(*between);
    first = false;
    add(attribute == nullptr ? item : attribute_of(item, *attribute, call.budget()));
  }
  return JinjaValue::text(std::move(result));
}

JinjaValue default_value(const JinjaCall& call) {
  call.expect({"default_value", "boolean"});
  const JinjaValue* const flag = call.argument(1, "boolean");
  const bool replaces_false = flag != nullptr && flag->is_true();
  const bool stays = replaces_false ? call.subject().is_true() : !call.subject().is_undefined();
  if (stays) return call.subject();
  const JinjaValue* const value = call.argument(0, "default_value");
  return value == nullptr ? JinjaValue::text("", TextAuthor::kTemplate) : *value;
}

template <bool kLast>
JinjaValue end_item(const JinjaCall& call) {
  call.expect({});
  const JinjaList items = jinja_items(call.subject(), call.budget());
  if (items.empty())
    return JinjaValue::undefined(kLast ? "the last item of an empty list"
                                       : "the first item of an empty list");
  return kLast ? items.back() : items.front();
}

JinjaValue list(const JinjaCall& call) {
  call.expect({});
  return call.made(jinja_items(call.subject(), call.budget()));
}

JinjaValue reverse(const JinjaCall& call) {
  call.expect({});
  const JinjaValue backwards = JinjaValue::integer(-1), none = JinjaValue::none();
  if (call.subject().is_text()) return jinja_slice(call.subject(), none, none, backwards, call.budget());
  return jinja_slice(JinjaValue::list(jinja_items(call.subject(), call.budget())), none, none, backwards,
                     call.budget());
}

JinjaValue unique(const JinjaCall& call) {
  call.expect({});
  JinjaList found;
  for (const JinjaValue& item : jinja_items(call.subject(), call.budget())) {
    if (std::ranges::none_of(found,
                             [&](const auto& other) { return jinja_equal(item, other, call.budget()); }))
      found.push_back(item);
  }
  return call.made(std::move(found));
}

JinjaValue items(const JinjaCall& call) {
  call.expect({});
  if (call.subject().is_undefined()) return JinjaValue::list({});
  if (!call.subject().is_object()) call.fail("an object", call.subject());
  JinjaList list;
  call.budget().items(3 * call.subject().object().size());
  for (const auto& [key, value] : call.subject().object()) list.push_back(JinjaValue::list({key, value}));
  return JinjaValue::list(std::move(list));
}

/// The arguments from `first` on.
JinjaArguments rest_of(const JinjaCall& call, std::size_t first) {
  JinjaArguments rest = call.arguments();
  rest.values.erase(rest.values.begin(),
                    rest.values.begin() + static_cast<std::ptrdiff_t>(std::min(first, rest.values.size())));
  return rest;
}

JinjaValue map(const JinjaCall& call) {
  JinjaList results;
  if (call.arguments().values.empty()) {
    call.expect({"", "attribute", "default"});
    const JinjaValue& attribute = call.required(1, "attribute");
    const JinjaValue* const otherwise = call.argument(2, "default");
    for (const JinjaValue& item : jinja_items(call.subject(), call.budget())) {
      JinjaValue value = attribute_of(item, attribute, call.budget());
      if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
      results.push_back(std::move(value));
    }
    return call.made(std::move(results));
  }
  const std::string& name = call.text(0, "filter").bytes();
  const JinjaOperation filter = find_jinja_filter(name);
  if (filter == nullptr || name == "map")
    throw JinjaFault("map: expected a known filter, found '" + name.substr(0, 40) + "'");
  for (const JinjaValue& item : jinja_items(call.subject(), call.budget())) {
    call.budget().step();
    results.push_back(filter(JinjaCall(name, item, rest_of(call, 1), call.budget())));
  }
  return call.made(std::move(results));
}

/// select, reject, selectattr, rejectattr.
template <bool kByAttribute, bool kKeeps>
JinjaValue select(const JinjaCall& call) {
  constexpr std::size_t kTest = kByAttribute ? 1 : 0;
  JinjaOperation test = nullptr;
  std::string name;
  if (call.argument(kTest) != nullptr) {
    name = call.text(kTest, "test").bytes();
    test = find_jinja_test(name);
    if (test == nullptr)
      throw JinjaFault(std::string(call.name()) + ": expected a known test, found '" + name.substr(0, 40) +
                       "'");
  }
  JinjaList kept;
  for (const JinjaValue& item : jinja_items(call.subject(), call.budget())) {
    call.budget().step();
    const JinjaValue value = kByAttribute ? attribute_of(item, call.required(0), call.budget()) : item;
    const bool holds = test == nullptr
                           ? value.is_true()
                           : test(JinjaCall(name, value, rest_of(call, kTest + 1), call.budget())).is_true();
    if (holds == kKeeps) kept.push_back(item);
  }
  return call.made(std::move(kept));
}

JinjaValue to_integer(const JinjaCall& call) {
  call.expect({"default"});
  const JinjaValue& value = call.subject();
  if (value.is_whole()) return JinjaValue::integer(value.whole());
  constexpr double kMost = 9007199254740992.0;
  if (value.is_float() && std::abs(value.real()) <= kMost)
    return JinjaValue::integer(static_cast<std::int64_t>(value.real()));
  if (value.is_text()) {
    const std::string text = jinja_stripped(value.text(), JinjaSides::kBoth).bytes();
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && std::abs(number) <= kMost)
      return JinjaValue::integer(static_cast<std::int64_t>(number));
  }
  return JinjaValue::integer(call.whole(0, "default", 0));
}

JinjaValue to_float(const JinjaCall& call) {
  call.expect({"default"});
  const JinjaValue& value = call.subject();
  if (value.is_number()) return JinjaValue::number(value.real());
  if (value.is_text()) {
    const std::string text = jinja_stripped(value.text(), JinjaSides::kBoth).bytes();
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return JinjaValue::number(number);
  }
  const JinjaValue* const otherwise = call.argument(0, "default");
  return otherwise == nullptr ? JinjaValue::number(0) : *otherwise;
}

JinjaValue absolute(const JinjaCall& call) {
  call.expect({});
  const JinjaValue& value = call.subject();
  if (!value.is_number()) call.fail("a number", value);
  if (value.real() >= 0) return value;
  return jinja_arithmetic("-", JinjaValue::integer(0), value, call.budget());
}

JinjaValue replace(const JinjaCall& call) {
  call.expect({"old", "new", "count"});
  const JinjaValue* const count = call.argument(2, "count");
  return call.made(jinja_replaced(text_of(call), call.text(0, "old"), call.text(1, "new"),
                                  count == nullptr || count->is_none() ? -1 : call.whole(2, "count", -1),
                                  call.budget()));
}

/// Jinja's indent: lines after the first, but for empty ones, begin with `width` spaces or that text.
JinjaValue indent(const JinjaCall& call) {
  call.expect({"width", "first", "blank"});
  constexpr std::int64_t kMost = 64;
  const JinjaValue* const width = call.argument(0, "width");
  const MarkedText space = width != nullptr && width->is_text()
                               ? width->text()
                               : MarkedText(std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                                            call.whole(0, "width", 4), 0, kMost)),
                                                        ' '),
                                            TextAuthor::kTemplate);
  const auto flag = [&](std::size_t position, std::string_view name) {
    const JinjaValue* const value = call.argument(position, name);
    return value != nullptr && value->is_true();
  };
  const bool first = flag(1, "first"), blank = flag(2, "blank");
  const MarkedText text = text_of(call);
  MarkedText result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.bytes().find('\n', begin), text.size());
    if ((begin == 0 ? first : blank || end > begin)) {
      call.budget().bytes(2 * space.size());
      result.append(space);
    }
    result.append(text, begin, std::min(end + 1, text.size()));
    begin = end + 1;
  }
  return call.made(std::move(result));
}

JinjaValue same(const JinjaCall& call) {
  call.expect({});
  return call.subject();
}

constexpr std::pair<std::string_view, JinjaOperation> kFilters[] = {
    {"abs", absolute},
    {"capitalize", mapped_text<jinja_capitalized>},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"first", end_item<false>},
    {"float", to_float},
    {"indent", indent},
    {"int", to_integer},
    {"items", items},
    {"join", join},
    {"last", end_item<true>},
    {"length", length},
    {"list", list},
    {"lower", mapped_text<jinja_lower>},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<true, false>},
    {"replace", replace},
    {"reverse", reverse},
    {"safe", same},
    {"select", select<false, true>},
    {"selectattr", select<true, true>},
    {"string", string},
    {"title", mapped_text<titled>},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", mapped_text<jinja_upper>}};

}  // namespace

JinjaOperation find_jinja_filter(std::string_view name) {
  const auto* const found =
      std::ranges::find(kFilters, name, &std::pair<std::string_view, JinjaOperation>::first);
  return found == std::end(kFilters) ? nullptr : found->second;
}

}  // namespace moh
