#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/io/input_file.h"

namespace moh {

/// The bytes of a pickle, read from the file as the reader of opcodes asks for them: where a pickle ends is
/// known only when its last opcode was seen, and a length inside it that lies costs nothing. All that was
/// read stays, so that the values may point into it.
class PickleText {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;

  /// The pickle begins at byte `begin` of the file and ends at byte `end` at the latest. `what` names it in
  /// messages.
  PickleText(const InputFile& file, std::uint64_t begin, std::uint64_t end, std::string what);

  /// Bytes taken so far.
  std::uint64_t taken() const { return position_; }
  /// Bytes up to the `end` that was given.
  std::uint64_t left() const { return end_ - begin_ - position_; }
  /// The next `size` bytes, valid until the next call. Throws when there are fewer.
  std::string_view take(std::uint64_t size);
  /// Up to a line feed, which is taken too, but not part of the result. Throws for more than `most` bytes.
  std::string_view take_line(std::uint64_t most);
  /// The bytes from `offset` on, taken before.
  std::string_view at(std::uint64_t offset, std::uint64_t size) const {
    return std::string_view(bytes_).substr(offset, size);
  }

  /// Throws the file's kind of error, naming the pickle and the byte of it.
  [[noreturn]] void fail(std::string_view expected, std::string_view found, std::string_view fix = "") const;

 private:
  void fill(std::uint64_t size);

  const InputFile* file_;
  std::uint64_t begin_;
  std::uint64_t end_;
  std::string what_;
  std::string bytes_;  // of the file from begin_ on
  std::uint64_t position_ = 0;
};

}  // namespace moh
