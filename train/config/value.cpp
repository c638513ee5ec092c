#include "train/config/value.h"

#include <algorithm>
#include <optional>
#include <span>

#include "train/base/io/printable.h"

namespace moh::config {

namespace {

bool is_control(std::string_view text, std::size_t i) {
  if (text[i] == '\r') return text.substr(i, 2) != "\r\n";  // nothing else ends a line
  return text[i] != '\t' && text[i] != '\n' && is_control_character(text.substr(i, 1));
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kLimit = 60;
  return printable(text, kLimit);
}

std::string found_text(const Value& value) {
  using Kind = Value::Kind;
  if (value.kind != Kind::kScalar)
    return value.kind == Kind::kList ? "a list" : value.kind == Kind::kMap ? "a map" : "nothing";
  return value.quoted || value.text.empty() ? '"' + shown(value.text) + '"' : shown(value.text);
}

bool check_characters(const Source& source, Problems& problems) {
  const std::string_view text = source.text;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0 || is_control(text, i)) {
      problems.add(
          {&source, i}, "", length == 0 ? "text in UTF-8" : "printable text",
          (length == 0 ? "the byte 0x" : "the control character 0x") + hex_digits(text.substr(i, 1)));
      return false;
    }
    i += length;
  }
  return true;
}

bool replace_indentation_tabs(Source& source, Problems& problems) {
  std::string& text = source.text;
  std::optional<std::size_t> first;
  int num_lines = 0;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::size_t indent = std::min(text.find_first_not_of(" \t\r", begin), end);
    const std::span indentation = std::span(text).subspan(begin, indent - begin);
    const auto tab = std::ranges::find(indentation, '\t');
    if (tab == indentation.end() || indent == end || text[indent] == '#') continue;  // may stay
    if (!first) first = begin + static_cast<std::size_t>(tab - indentation.begin());
    ++num_lines;
    std::ranges::replace(indentation, '\t', ' ');
  }
  if (!first) return false;
  const std::string others = num_lines > 1 ? " (on " + std::to_string(num_lines) + " lines)" : "";
  problems.add({&source, *first}, "", "spaces as indentation", "a tab" + others,
               "YAML allows no tab here; indent with two spaces");
  return true;
}

}  // namespace moh::config
