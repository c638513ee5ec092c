#include "train/tokenizers/protobuf.h"

#include "core/error.h"

namespace moh {

void ProtobufReader::fail(std::string_view found) const {
  throw DataError(error_message(where_, "", "a sound message of Protocol Buffers", found));
}

std::uint64_t ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than 64 bits");
}

std::string_view ProtobufReader::take(std::uint64_t count) {
  if (count > rest_.size()) fail("one that breaks off");
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::uint64_t ProtobufReader::fixed(std::size_t bytes) {
  std::uint64_t value = 0;
  const std::string_view taken = take(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
  return value;
}

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  const std::uint64_t tag = varint();
  Field field{.id = static_cast<std::uint32_t>(tag >> 3)};
  if (tag >> 3 == 0 || tag >> 32 != 0) fail("a field without a number");
  switch (tag & 7U) {
    case 0:
      field.number = varint();
      return field;
    case 1:
      field.number = fixed(8);
      return field;
    case 2:
      field.bytes = take(varint());
      field.is_bytes = true;
      return field;
    case 5:
      field.number = fixed(4);
      return field;
    default:
      fail("a field of an unknown type");
  }
}

}  // namespace moh
