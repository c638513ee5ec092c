#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/problems.h"

namespace moh::config {

struct Entry;

/// A parsed but uninterpreted node of a config: scalars are text.
struct Value {
  enum class Kind {
    kNull,     ///< an empty value, or null
    kScalar,   ///< text
    kList,     ///< items
    kMap,      ///< entries, in the order written, no key twice
    kRefused,  ///< already reported: no further messages about it
  };

  Kind kind = Kind::kNull;
  Mark mark;
  std::string text;
  bool quoted = false;  ///< 'text', "text" or a block scalar: never a number or a truth value
  std::vector<Value> items;
  std::vector<Entry> entries;
};

struct Entry {
  std::string key;
  Mark mark;  ///< of the key
  Value value;
};

/// The value in a message: its text as written (shortened, control characters escaped), "a list", "a map" or
/// "nothing".
std::string found_text(const Value& value);

/// A text of a config for a message: shortened, control characters escaped.
std::string shown(std::string_view text);

/// Reports the first byte that is not valid UTF-8, or is a control character other than tab and line end.
/// Returns whether there was none; otherwise the text should not be parsed.
bool check_characters(const Source& source, Problems& problems);

/// Reports tabs used as indentation, and replaces each by one space, which preserves offsets, so that the
/// rest of the text can still be checked. Returns whether there were any.
bool replace_indentation_tabs(Source& source, Problems& problems);

}  // namespace moh::config
