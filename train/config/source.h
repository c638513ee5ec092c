#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

/// The whole content of the file, without a byte-order mark. Throws ConfigError saying why it cannot be read,
/// that it is a folder, or that it is larger than kMaxSourceBytes; the message names neither key nor place.
std::string read_source_file(const std::string& path);

}  // namespace moh::config
