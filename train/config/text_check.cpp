#include "train/config/text_check.h"

#include <algorithm>
#include <optional>

#include "train/io/printable.h"

namespace moh::config {

namespace {

bool is_control(std::string_view text, std::size_t i) {
  if (text[i] == '\r') return text.substr(i, 2) != "\r\n";  // nothing else ends a line
  return text[i] != '\t' && text[i] != '\n' && is_control_character(text.substr(i, 1));
}

/// The first tab in the indentation of the line [begin, end), unless the line is blank or a comment.
std::optional<std::size_t> indentation_tab(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view line = text.substr(begin, end - begin);
  const std::size_t indent = line.find_first_not_of(" \t\r");
  if (indent == std::string_view::npos || line[indent] == '#') return std::nullopt;
  const std::size_t tab = line.substr(0, indent).find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  return begin + tab;
}

}  // namespace

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
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (const auto tab = indentation_tab(text, begin, end)) {
      if (!first) first = tab;
      ++num_lines;
      for (std::size_t i = begin; text[i] == ' ' || text[i] == '\t'; ++i) text[i] = ' ';
    }
    begin = end + 1;
  }
  if (!first) return false;
  const std::string others = num_lines > 1 ? " (on " + std::to_string(num_lines) + " lines)" : "";
  problems.add({&source, *first}, "", "spaces as indentation", "a tab" + others,
               "YAML allows no tab here; indent with two spaces");
  return true;
}

}  // namespace moh::config
