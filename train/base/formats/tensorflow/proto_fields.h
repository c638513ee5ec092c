#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/base/io/input_file.h"

namespace moh {

/// A field of a message in the wire format of Protocol Buffers.
struct ProtoField {
  enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  std::uint32_t number = 0;
  Wire wire = Wire::kVarint;
  std::uint64_t value = 0;  ///< of a number; of 64 or 32 bits as they are
  std::uint64_t begin = 0;  ///< in the file, of a field of bytes
  std::uint64_t size = 0;   ///< in bytes, of these

  bool is(std::uint32_t of_number, Wire of_wire) const { return number == of_number && wire == of_wire; }
};

/// The fields of a message in bytes [begin, end) of a file, one after the other. The file is untrusted: every
/// length is checked against the message. Throws the file's kind of error, naming the byte.
class ProtoFields {
 public:
  using Wire = ProtoField::Wire;

  /// The whole file.
  explicit ProtoFields(const InputFile& file) : file_(file), at_(0), end_(file.size()) {}
  /// The message in a field of bytes.
  ProtoFields(const InputFile& file, const ProtoField& message)
      : file_(file), at_(message.begin), end_(message.begin + message.size) {}

  /// The next field; nothing at the end.
  std::optional<ProtoField> next();
  /// The text of a field of bytes of this file, which is refused beyond `most` bytes; `what` names it.
  std::string text(const ProtoField& field, std::string_view what, std::uint64_t most) const;

 private:
  std::uint64_t varint();
  std::uint64_t fixed(std::uint64_t bytes);
  [[noreturn]] void fail(std::string_view expected, std::string_view found) const;

  const InputFile& file_;
  std::uint64_t at_, end_;
};

}  // namespace moh
