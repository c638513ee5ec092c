#include "train/tasks/language/score/python_text.h"

#include <utf8proc.h>

#include <array>

#include "train/io/printable.h"

namespace moh {

namespace {

std::int32_t code_point(std::string_view character) {
  std::int32_t point = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &point);
  return point;
}

/// str.isspace of one character.
bool is_space(std::string_view character) {
  const std::int32_t c = code_point(character);
  if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

void append(std::int32_t point, std::string& to) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t count = utf8proc_encode_char(point, bytes.data());
  to.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

template <class Visit>
void each_character(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    visit(character);
    text.remove_prefix(character.size());
  }
}

}  // namespace

std::string_view python_lstrip(std::string_view text) {
  while (!text.empty() && is_space(first_character(text))) text.remove_prefix(first_character(text).size());
  return text;
}

std::string_view python_rstrip(std::string_view text) {
  while (!text.empty() && is_space(last_character(text))) text.remove_suffix(last_character(text).size());
  return text;
}

std::string_view python_strip(std::string_view text) {
  return python_lstrip(python_rstrip(text));
}

std::string python_lower(std::string_view text) {
  std::string lower;
  each_character(text, [&](std::string_view c) { append(utf8proc_tolower(code_point(c)), lower); });
  return lower;
}

std::string python_capitalize(std::string_view text) {
  std::string result;
  if (text.empty()) return result;
  const std::string_view first = first_character(text);
  append(utf8proc_totitle(code_point(first)), result);
  return result + python_lower(text.substr(first.size()));
}

std::int64_t python_length(std::string_view text) {
  std::int64_t count = 0;
  each_character(text, [&](std::string_view) { ++count; });
  return count;
}

std::int64_t count_split_words(std::string_view text) {
  std::int64_t stretches = 0;
  bool in_space = false;
  each_character(text, [&](std::string_view c) {
    const bool space = is_space(c);
    stretches += space && !in_space ? 1 : 0;
    in_space = space;
  });
  return stretches + 1;
}

}  // namespace moh
