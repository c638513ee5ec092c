#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "train/base/formats/byte_stream.h"

namespace moh {

/// The text as one line: without spaces at its ends, and with a space for each run of spaces, tabs and line
/// ends.
std::string one_line(std::string_view text);

/// The lines of a text file, plain or compressed (.gz, .zst). Memory: a line and a block.
class TextLines {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

  /// Throws DataError if the file cannot be read.
  explicit TextLines(std::string path);

  /// The next line, without the LF or CR LF that ends it; false at the end. Throws DataError for a damaged or
  /// binary file (NUL bytes) and for a longer line.
  bool next(std::string& line);

  const std::string& path() const { return path_; }
  /// Lines that were read.
  std::int64_t count() const { return count_; }
  /// "PATH:LINE", of the last line.
  std::string where() const { return path_ + ":" + std::to_string(count_); }

 private:
  /// Appends a block; false at the end.
  bool fill();

  std::string path_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what has not been passed on
  std::int64_t count_ = 0;
};

}  // namespace moh
