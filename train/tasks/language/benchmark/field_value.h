#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

struct FieldEntry;

/// A value of a benchmark's record, as JSON has it.
struct FieldValue {
  enum class Kind { kNull, kBool, kNumber, kText, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;                 ///< of a text; of a number and a truth value as JSON writes it
  std::vector<FieldValue> items;    ///< of a list
  std::vector<FieldEntry> entries;  ///< of a map, in the order of the file, no key twice

  static FieldValue of_text(std::string text);
  static FieldValue of_number(std::int64_t number);

  /// The value of a map at a key; null if there is none.
  const FieldValue* find(std::string_view key) const;
  bool operator==(const FieldValue& other) const;
};

struct FieldEntry {
  std::string key;
  FieldValue value;

  bool operator==(const FieldEntry&) const = default;
};

/// A value in a message: its text, shortened, or "a list of 3", "a map with the keys 'a', 'b'", "null".
std::string describe(const FieldValue& value);

}  // namespace moh
