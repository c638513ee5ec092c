#include "train/base/formats/tensorflow/proto_fields.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace moh {

void ProtoFields::fail(std::string_view expected, std::string_view found) const {
  file_.fail("byte " + std::to_string(at_), expected, found,
             "this is no file of Protocol Buffers, or it is damaged or truncated");
}

std::uint64_t ProtoFields::varint() {
  constexpr std::size_t kMost = 10;  // of 7 bits each
  std::array<std::byte, kMost> bytes{};
  const std::uint64_t there = std::min<std::uint64_t>(kMost, end_ - at_);
  file_.read(at_, std::span(bytes).first(there), "number");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < there; ++i) {
    const auto bits = std::to_integer<std::uint64_t>(bytes[i]);
    if (i == kMost - 1 && bits > 1) break;
    value |= (bits & 0x7F) << (7 * i);
    if (bits < 0x80) {
      at_ += i + 1;
      return value;
    }
  }
  fail("a number of at most 64 bits within its message", "none");
}

std::uint64_t ProtoFields::fixed(std::uint64_t bytes) {
  if (end_ - at_ < bytes)
    fail(std::to_string(bytes) + " bytes of a number", std::to_string(end_ - at_) + " to the message's end");
  std::uint64_t value = 0;
  file_.read(at_, std::as_writable_bytes(std::span(&value, 1)).first(bytes), "number");
  at_ += bytes;
  return value;
}

std::optional<ProtoField> ProtoFields::next() {
  if (at_ == end_) return std::nullopt;
  const std::uint64_t tag = varint();
  if (tag >> 3 == 0 || tag >> 32 != 0) fail("the number of a field", std::to_string(tag >> 3));
  ProtoField field{.number = static_cast<std::uint32_t>(tag >> 3), .wire = static_cast<Wire>(tag & 7)};
  switch (field.wire) {
    case Wire::kVarint:
      field.value = varint();
      return field;
    case Wire::kFixed64:
      field.value = fixed(8);
      return field;
    case Wire::kFixed32:
      field.value = fixed(4);
      return field;
    case Wire::kBytes:
      field.size = varint();
      field.begin = at_;
      if (field.size > end_ - at_)
        fail("a field within its message, at most " + std::to_string(end_ - at_) + " bytes",
             std::to_string(field.size));
      at_ += field.size;
      return field;
  }
  fail("a number, bytes, or a message", "a field of type " + std::to_string(tag & 7));
}

std::string ProtoFields::text(const ProtoField& field, std::string_view what, std::uint64_t most) const {
  if (field.size > most)
    file_.fail(std::string(what) + " at byte " + std::to_string(field.begin),
               "at most " + std::to_string(most) + " bytes", std::to_string(field.size));
  std::string text(field.size, '\0');
  file_.read(field.begin, std::as_writable_bytes(std::span(text)), what);
  return text;
}

}  // namespace moh
