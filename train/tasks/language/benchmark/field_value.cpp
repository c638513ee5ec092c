#include "train/tasks/language/benchmark/field_value.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "train/io/printable.h"

namespace moh {

FieldValue FieldValue::of_text(std::string text) {
  return {Kind::kText, std::move(text), {}, {}};
}

FieldValue FieldValue::of_number(std::int64_t number) {
  return {Kind::kNumber, std::to_string(number), {}, {}};
}

const FieldValue* FieldValue::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &FieldEntry::key);
  return found == entries.end() ? nullptr : &found->value;
}

bool FieldValue::operator==(const FieldValue& other) const {
  return kind == other.kind && text == other.text && items == other.items && entries == other.entries;
}

std::string describe(const FieldValue& value) {
  constexpr std::size_t kShownBytes = 60, kShownKeys = 8;
  switch (value.kind) {
    case FieldValue::Kind::kNull:
      return "null";
    case FieldValue::Kind::kBool:
    case FieldValue::Kind::kNumber:
      return printable(value.text, kShownBytes);
    case FieldValue::Kind::kText:
      return "'" + printable(value.text, kShownBytes) + "'";
    case FieldValue::Kind::kList:
      return "a list of " + std::to_string(value.items.size());
    case FieldValue::Kind::kMap:
      break;
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(value.entries.size(), kShownKeys); ++i)
    text += (i == 0 ? "'" : ", '") + printable(value.entries[i].key, kShownBytes) + "'";
  if (text.empty()) return "an empty map";
  return "a map with the keys " + text + (value.entries.size() > kShownKeys ? ", ..." : "");
}

}  // namespace moh
