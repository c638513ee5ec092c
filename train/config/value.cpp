#include "train/config/value.h"

#include <algorithm>

#include "train/io/printable.h"

namespace moh::config {

std::string Mark::text() const {
  if (!source->is_file || offset == kWhole) return source->name;
  const std::string_view before = std::string_view(source->text).substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  const auto starts_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  const auto column = 1 + std::ranges::count_if(before.substr(line_start), starts_character);
  return source->name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLimit = 60;
  return printable(text, kLimit);
}

std::string found_text(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kScalar:
      return value.quoted || value.text.empty() ? '"' + shown(value.text) + '"' : shown(value.text);
    case Value::Kind::kList:
      return "a list";
    case Value::Kind::kMap:
      return "a map";
    case Value::Kind::kNull:
    case Value::Kind::kRefused:
      break;
  }
  return "nothing";
}

}  // namespace moh::config
