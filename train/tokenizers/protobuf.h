#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// Reads the fields of a message in the wire format of Protocol Buffers, one after the other. The bytes are
/// untrusted: nothing beyond them is read, and what is no message ends the reading with an error.
class ProtobufReader {
 public:
  /// One field. Of `number` and `bytes` one is set, by the type on the wire.
  struct Field {
    std::uint32_t id = 0;
    std::uint64_t number = 0;  ///< of a varint, a 32-bit or a 64-bit field: its bits
    std::string_view bytes;    ///< of a length-delimited field
    bool is_bytes = false;
  };

  /// `bytes` must outlive the reader; `where` is for messages.
  ProtobufReader(std::string_view bytes, std::string_view where) : rest_(bytes), where_(where) {}

  /// The next field; nothing at the end. Throws DataError for a message that is damaged.
  std::optional<Field> next();

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t count);
  std::uint64_t fixed(std::size_t bytes);
  [[noreturn]] void fail(std::string_view found) const;

  std::string_view rest_;
  std::string where_;
};

}  // namespace moh
