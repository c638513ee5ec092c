#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "train/base/io/input_file.h"

namespace moh {

// Reading numbers, and packed structs of them, from files.
static_assert(std::endian::native == std::endian::little, "numbers in files are those of the host");

/// The T in bytes [offset, offset + sizeof(T)), which the caller has bounds-checked.
template <class T>
requires std::is_trivially_copyable_v<T> T record_at(std::span<const std::byte> bytes,
                                                     std::size_t offset = 0) {
  T record;
  std::memcpy(&record, bytes.data() + offset, sizeof(T));
  return record;
}

/// The T at byte `offset` of the file. Throws as InputFile::read() does.
template <class T>
requires std::is_trivially_copyable_v<T> T read_record(const InputFile& file, std::uint64_t offset,
                                                       std::string_view what) {
  T record;
  file.read(offset, std::as_writable_bytes(std::span(&record, 1)), what);
  return record;
}

}  // namespace moh
