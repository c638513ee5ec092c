#pragma once

#include <concepts>
#include <cstddef>
#include <span>

namespace moh {

/// The little-endian number in bytes [offset, offset + sizeof(T)), which the caller has checked to be there.
template <std::unsigned_integral T>
T little_endian(std::span<const std::byte> bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | (static_cast<T>(std::to_integer<T>(bytes[offset + i])) << (8 * i)));
  }
  return value;
}

}  // namespace moh
