#include <utf8proc.h>

#include <algorithm>

#include "train/base/io/printable.h"
#include "train/base/jinja/jinja_calls.h"
#include "train/base/jinja/jinja_operators.h"

namespace moh {

namespace {

std::int32_t code_of(std::string_view character) {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return code;
}

/// str.isspace().
bool is_python_space(std::string_view character) {
  const std::int32_t code = code_of(character);
  if ((code >= 0x9 && code <= 0xd) || (code >= 0x1c && code <= 0x1f) || code == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_letter(std::int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

template <JinjaSides kSides>
JinjaValue strip(const JinjaCall& call) {
  call.expect({"chars"});
  const JinjaValue* const chars = call.argument(0);
  const bool has_chars = chars != nullptr && !chars->is_none();
  return call.made(jinja_stripped(call.subject_text(), kSides, has_chars ? &call.text(0, "chars") : nullptr));
}

template <MarkedText (*kChange)(const MarkedText&)>
JinjaValue changed(const JinjaCall& call) {
  call.expect({});
  call.budget().step(call.subject_text().size() / 4);
  return call.made(kChange(call.subject_text()));
}

/// str.title(): each letter that follows no letter in upper case, the others in lower case.
JinjaValue title(const JinjaCall& call) {
  call.expect({});
  MarkedText result;
  bool in_word = false;
  const MarkedText& text = call.subject_text();
  const std::vector<std::size_t> places = character_places(text.bytes());
  for (std::size_t i = 0; i + 1 < places.size(); ++i) {
    const MarkedText character = text.part(places[i], places[i + 1]);
    result.append(in_word ? jinja_lower(character) : jinja_upper(character));
    in_word = is_letter(code_of(character.bytes()));
  }
  call.budget().step(places.size());
  return call.made(std::move(result));
}

/// The pieces between white space.
JinjaList words_of(const MarkedText& text, std::int64_t most) {
  JinjaList words;
  std::string_view rest = text.bytes();
  const auto skip = [&](bool spaces) {
    while (!rest.empty() && is_python_space(first_character(rest)) == spaces)
      rest.remove_prefix(first_character(rest).size());
    return text.size() - rest.size();
  };
  while (true) {
    const std::size_t begin = skip(true);
    if (rest.empty()) return words;
    if (most >= 0 && std::ssize(words) == most) {
      words.push_back(JinjaValue::text(jinja_stripped(text.part(begin, text.size()), JinjaSides::kRight)));
      return words;
    }
    words.push_back(JinjaValue::text(text.part(begin, skip(false))));
  }
}

JinjaList pieces_of(const MarkedText& text, const std::string& separator, std::int64_t most) {
  JinjaList pieces;
  std::size_t begin = 0;
  while (most < 0 || std::ssize(pieces) < most) {
    const std::size_t end = text.bytes().find(separator, begin);
    if (end == std::string::npos) break;
    pieces.push_back(JinjaValue::text(text.part(begin, end)));
    begin = end + separator.size();
  }
  pieces.push_back(JinjaValue::text(text.part(begin, text.size())));
  return pieces;
}

JinjaList pieces_from_the_right(const MarkedText& text, const std::string& separator, std::int64_t most) {
  JinjaList pieces;
  std::size_t end = text.size();
  while (most < 0 || std::ssize(pieces) < most) {
    const std::size_t found =
        end < separator.size() ? std::string::npos : text.bytes().rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    pieces.push_back(JinjaValue::text(text.part(found + separator.size(), end)));
    end = found;
  }
  pieces.push_back(JinjaValue::text(text.part(0, end)));
  std::ranges::reverse(pieces);
  return pieces;
}

template <bool kFromTheRight>
JinjaValue split(const JinjaCall& call) {
  call.expect({"sep", "maxsplit"});
  const MarkedText& text = call.subject_text();
  call.budget().bytes(2 * text.size() + text.size() * sizeof(JinjaValue));
  const std::int64_t most = call.whole(1, "maxsplit", -1);
  const JinjaValue* const separator = call.argument(0, "sep");
  if (separator == nullptr || separator->is_none()) {
    if (kFromTheRight && most >= 0) throw JinjaFault("rsplit: expected a separator where maxsplit is given");
    call.budget().step(text.size());
    return call.made(words_of(text, most));
  }
  const std::string& bytes = call.text(0, "sep").bytes();
  if (bytes.empty()) throw JinjaFault("split: expected a separator that is not empty");
  call.budget().step(text.size() / 16);
  return call.made(kFromTheRight ? pieces_from_the_right(text, bytes, most) : pieces_of(text, bytes, most));
}

template <bool kAtEnd>
JinjaValue has_affix(const JinjaCall& call) {
  call.expect({"affix"});
  const std::string& text = call.subject_text().bytes();
  const auto holds = [&](const JinjaValue& affix) {
    if (!affix.is_text()) call.fail("a text, or several", affix);
    return kAtEnd ? text.ends_with(affix.bytes()) : text.starts_with(affix.bytes());
  };
  const JinjaValue& affix = call.required(0);
  return JinjaValue::boolean(affix.is_list() ? std::ranges::any_of(affix.list(), holds) : holds(affix));
}

JinjaValue replace_method(const JinjaCall& call) {
  call.expect({"old", "new", "count"});
  return call.made(jinja_replaced(call.subject_text(), call.text(0, "old"), call.text(1, "new"),
                                  call.whole(2, "count", -1), call.budget()));
}

template <bool kLast>
JinjaValue find(const JinjaCall& call) {
  call.expect({"sub"});
  const std::string& text = call.subject_text().bytes();
  call.budget().step(text.size() / 8);
  const std::string& part = call.text(0, "sub").bytes();
  const std::size_t found = kLast ? text.rfind(part) : text.find(part);
  if (found == std::string::npos) return JinjaValue::integer(-1);
  return JinjaValue::integer(std::ssize(character_places(std::string_view(text).substr(0, found))) - 1);
}

JinjaValue count(const JinjaCall& call) {
  call.expect({"sub"});
  const std::string& part = call.text(0, "sub").bytes();
  if (part.empty()) throw JinjaFault("count: expected a text that is not empty");
  call.budget().step(call.subject_text().size() / 8);
  return JinjaValue::integer(std::ssize(pieces_of(call.subject_text(), part, -1)) - 1);
}

JinjaValue join_texts(const JinjaCall& call) {
  call.expect({"items"});
  MarkedText result;
  bool first = true;
  for (const JinjaValue& item : jinja_items(call.required(0), call.budget())) {
    if (!item.is_text()) call.fail("texts", item);
    if (!std::exchange(first, false)) result.append(call.subject_text());
    call.budget().bytes(2 * (call.subject_text().size() + item.text().size()));
    result.append(item.text());
  }
  return JinjaValue::text(std::move(result));
}

JinjaValue get(const JinjaCall& call) {
  call.expect({"key", "default"});
  const JinjaValue* const otherwise = call.argument(1, "default");
  JinjaValue found = jinja_item(call.subject(), call.required(0, "key"), call.budget());
  if (!found.is_undefined()) return found;
  return otherwise == nullptr ? JinjaValue::none() : *otherwise;
}

JinjaValue keys(const JinjaCall& call) {
  call.expect({});
  return call.made(jinja_items(call.subject(), call.budget()));
}

JinjaValue values(const JinjaCall& call) {
  call.expect({});
  JinjaList list;
  for (const auto& entry : call.subject().object()) list.push_back(entry.second);
  return call.made(std::move(list));
}

JinjaValue items_method(const JinjaCall& call) {
  call.expect({});
  return find_jinja_filter("items")(call);
}

constexpr std::pair<std::string_view, JinjaOperation> kTextMethods[] = {
    {"capitalize", changed<jinja_capitalized>},
    {"count", count},
    {"endswith", has_affix<true>},
    {"find", find<false>},
    {"join", join_texts},
    {"lower", changed<jinja_lower>},
    {"lstrip", strip<JinjaSides::kLeft>},
    {"replace", replace_method},
    {"rfind", find<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<JinjaSides::kRight>},
    {"split", split<false>},
    {"startswith", has_affix<false>},
    {"strip", strip<JinjaSides::kBoth>},
    {"title", title},
    {"upper", changed<jinja_upper>}};
constexpr std::pair<std::string_view, JinjaOperation> kObjectMethods[] = {
    {"get", get}, {"items", items_method}, {"keys", keys}, {"values", values}};

}  // namespace

JinjaOperation find_jinja_text_method(std::string_view name) {
  const auto* const found =
      std::ranges::find(kTextMethods, name, &std::pair<std::string_view, JinjaOperation>::first);
  return found == std::end(kTextMethods) ? nullptr : found->second;
}

JinjaOperation find_jinja_object_method(std::string_view name) {
  const auto* const found =
      std::ranges::find(kObjectMethods, name, &std::pair<std::string_view, JinjaOperation>::first);
  return found == std::end(kObjectMethods) ? nullptr : found->second;
}

MarkedText jinja_stripped(const MarkedText& text, JinjaSides sides, const MarkedText* blanks) {
  std::string_view rest = text.bytes();
  const auto is_blank = [&](std::string_view character) {
    return blanks == nullptr ? is_python_space(character)
                             : blanks->bytes().find(character) != std::string::npos;
  };
  std::size_t begin = 0;
  if (sides != JinjaSides::kRight) {
    while (!rest.empty() && is_blank(first_character(rest))) rest.remove_prefix(first_character(rest).size());
    begin = text.size() - rest.size();
  }
  if (sides != JinjaSides::kLeft) {
    while (!rest.empty() && is_blank(last_character(rest))) rest.remove_suffix(last_character(rest).size());
  }
  return text.part(begin, begin + rest.size());
}

MarkedText jinja_replaced(const MarkedText& text, const MarkedText& from, const MarkedText& to,
                          std::int64_t count, JinjaBudget& budget) {
  if (from.empty()) throw JinjaFault("replace: expected a text to replace that is not empty");
  MarkedText result;
  std::size_t begin = 0;
  budget.step(text.size() / 16);
  for (; count != 0; --count) {
    const std::size_t found = text.bytes().find(from.bytes(), begin);
    if (found == std::string::npos) break;
    budget.bytes(2 * to.size());
    result.append(text, begin, found);
    result.append(to);
    begin = found + from.size();
  }
  result.append(text, begin, text.size());
  return result;
}

MarkedText jinja_mapped(const MarkedText& text, std::int32_t (*change)(std::int32_t code)) {
  MarkedText result;
  std::string_view rest = text.bytes();
  while (!rest.empty()) {
    const std::string_view character = first_character(rest);
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t size = utf8proc_encode_char(change(code_of(character)), bytes);
    result.append({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)},
                  text.author(text.size() - rest.size()));
    rest.remove_prefix(character.size());
  }
  return result;
}

MarkedText jinja_upper(const MarkedText& text) {
  return jinja_mapped(text, utf8proc_toupper);
}

MarkedText jinja_lower(const MarkedText& text) {
  return jinja_mapped(text, utf8proc_tolower);
}

MarkedText jinja_capitalized(const MarkedText& text) {
  if (text.empty()) return {};
  const std::size_t first = first_character(text.bytes()).size();
  MarkedText result = jinja_upper(text.part(0, first));
  result.append(jinja_lower(text.part(first, text.size())));
  return result;
}

}  // namespace moh
