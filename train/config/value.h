#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/problems.h"

namespace moh::config {

struct Entry;

/// A node of a config as it was written, before anything is known about its meaning: scalars are text.
struct Value {
  enum class Kind {
    kNull,     ///< nothing was written, or null
    kScalar,   ///< text
    kList,     ///< items
    kMap,      ///< entries, in the order written, no key twice
    kRefused,  ///< was reported already; whoever meets it says nothing more
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
  std::string old_key{};  ///< the whole key as it was written, where that is its name of earlier versions
};

/// What a message calls the value: its text as written (shortened, made printable), "a list", "a map" or
/// "nothing".
std::string found_text(const Value& value);

/// Text out of a config as a message shows it: shortened, control characters escaped.
std::string shown(std::string_view text);

/// Reports the first byte that is not UTF-8, or is a control character other than tab and line end, and
/// returns whether there was none: beyond such a byte nothing can be said about the text.
bool check_characters(const Source& source, Problems& problems);

/// Reports tabs that indent lines, and replaces each by one space: places keep their offsets, and the rest of
/// the text can still be checked. Returns whether there were any.
bool replace_indentation_tabs(Source& source, Problems& problems);

}  // namespace moh::config
