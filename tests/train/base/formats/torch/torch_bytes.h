#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moh::test {

/// The low `bytes` bytes of a number, little-endian.
std::string little_endian_bytes(std::uint64_t value, int bytes);

/// Pieces of pickles: each leaves one value on the stack.
namespace pickle {

std::string text(std::string_view value);
std::string integer(std::int64_t value);
std::string global(std::string_view module, std::string_view name);
std::string tuple(std::initializer_list<std::string> items);
std::string list(std::initializer_list<std::string> items);
/// Keys and values in turn.
std::string dict(std::initializer_list<std::string> items);
std::string call(const std::string& callable, std::initializer_list<std::string> args);
/// The storage `key` of class torch.CLASS with so many elements.
std::string storage(std::string_view key, std::string_view class_name, std::int64_t numel);
std::string shape(std::initializer_list<std::int64_t> extents);
std::string tensor(const std::string& storage, std::int64_t offset, std::initializer_list<std::int64_t> sizes,
                   std::initializer_list<std::int64_t> strides);
/// The value as a whole pickle.
std::string whole(const std::string& value, int protocol = 2);

}  // namespace pickle

/// An entry of a zip archive, and where it may lie.
struct ZipPart {
  std::string name;
  std::string bytes;
  std::uint16_t method = 0;
  std::uint16_t flags = 0x0808;
  std::optional<std::uint32_t> crc32;
  std::optional<std::uint32_t> size, packed, header_offset;  ///< as the directory says them
  std::uint32_t local_size = 0;
  std::string extra;  ///< of the directory
  std::string local_extra;
  std::optional<std::string> local_name;
};

struct ZipEnd {
  std::optional<std::uint16_t> entries;
  std::optional<std::uint32_t> begin, bytes;  ///< of the directory
  bool zip64 = false;                         ///< a Zip64 record and locator in front
  std::optional<std::uint64_t> entries64, begin64, bytes64, locator;
  std::string comment;
};

std::string zip_bytes(const std::vector<ZipPart>& parts, const ZipEnd& end = {});

/// An archive as torch.save writes it, with this object and these storages "0", "1", ...
std::string torch_zip(const std::string& pickle, const std::vector<std::string>& storages = {});

/// The stream of old versions: the object, and storages as the file has them, count in front.
std::string old_torch(const std::string& pickle, const std::string& keys, const std::string& storages);

}  // namespace moh::test
