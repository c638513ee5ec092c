#include "train/config/value.h"

#include "train/io/printable.h"

namespace moh::config {

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
