#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moh::config {

/// A config is a page of keys; a file beyond this is not one.
inline constexpr std::size_t kMaxSourceBytes = 256 * 1024;

/// A text that configuration comes from: a file, or one override of the command line. Marks point into it, so
/// it stays where it is.
struct Source {
  std::string name;  ///< the file's path as the user knows it, or "command line: train.steps=5"
  std::string text;
  bool is_file = true;
  int order = 0;  ///< position among the sources of one run; errors are listed in this order
};

/// A place in a source, or the source as a whole.
struct Mark {
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);

  const Source* source = nullptr;
  std::size_t offset = kWhole;  ///< bytes into source->text

  /// "configs/a.yaml:3:7" with line and column from 1, the column counted in characters; for an override and
  /// for a source as a whole its name.
  std::string text() const;
};

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
};

/// What a message calls the value: its text as written (shortened, made printable), "a list", "a map" or
/// "nothing".
std::string found_text(const Value& value);

/// Text out of a config as a message shows it: shortened, control characters escaped.
std::string shown(std::string_view text);

}  // namespace moh::config
