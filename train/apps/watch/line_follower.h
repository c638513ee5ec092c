#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/function_ref.h"

namespace moh::watch {

/// Reads the lines of a file to which another process appends, or which it cuts and writes anew, as a run
/// does that is resumed from an earlier checkpoint. Keeps nothing of the file but the end of what it has
/// read.
class LineFollower {
 public:
  /// Longer lines are passed over.
  static constexpr std::size_t kMostLine = 1 << 20;

  explicit LineFollower(std::filesystem::path path) : path_(std::move(path)) {}

  /// Gives `line` the whole lines among the next `most` bytes (at least kMostLine), without their ends; a
  /// line that is still being written waits. Calls `restart` first where what was read is not there any more:
  /// the lines then begin anew. Returns whether more bytes wait. A file that is not there has no lines.
  bool advance(std::size_t most, FunctionRef<void()> restart, FunctionRef<void(std::string_view)> line);

  std::uint64_t bytes_read() const { return offset_; }
  /// Size of the file when it was last looked at.
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::uint64_t offset_ = 0, bytes_ = 0;
  std::string tail_;      // the bytes before offset_
  bool passing_ = false;  // offset_ is within a line that is too long
};

}  // namespace moh::watch
