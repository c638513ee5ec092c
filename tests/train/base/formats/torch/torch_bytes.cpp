#include "tests/train/base/formats/torch/torch_bytes.h"

#include <zlib.h>

namespace moh::test {

std::string little_endian_bytes(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value);
  return text;
}

namespace pickle {

namespace {

std::string marked(std::initializer_list<std::string> items) {
  std::string all = "(";
  for (const std::string& item : items) all += item;
  return all;
}

}  // namespace

std::string text(std::string_view value) {
  return "X" + little_endian_bytes(value.size(), 4) + std::string(value);
}

std::string integer(std::int64_t value) {
  return "\x8a\x08" + little_endian_bytes(static_cast<std::uint64_t>(value), 8);
}

std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

std::string tuple(std::initializer_list<std::string> items) {
  return marked(items) + "t";
}

std::string list(std::initializer_list<std::string> items) {
  return "]" + marked(items) + "e";
}

std::string dict(std::initializer_list<std::string> items) {
  return "}" + marked(items) + "u";
}

std::string call(const std::string& callable, std::initializer_list<std::string> args) {
  return callable + tuple(args) + "R";
}

std::string storage(std::string_view key, std::string_view class_name, std::int64_t numel) {
  return tuple({text("storage"), global("torch", class_name), text(key), text("cpu"), integer(numel)}) + "Q";
}

std::string shape(std::initializer_list<std::int64_t> extents) {
  std::string all = "(";
  for (const std::int64_t extent : extents) all += integer(extent);
  return all + "t";
}

std::string tensor(const std::string& storage, std::int64_t offset, std::initializer_list<std::int64_t> sizes,
                   std::initializer_list<std::int64_t> strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {storage, integer(offset), shape(sizes), shape(strides), "\x89",
               call(global("collections", "OrderedDict"), {})});
}

std::string whole(const std::string& value, int protocol) {
  return "\x80" + little_endian_bytes(static_cast<std::uint64_t>(protocol), 1) + value + ".";
}

}  // namespace pickle

namespace {

std::uint32_t checksum(const ZipPart& part) {
  const auto* bytes = reinterpret_cast<const Bytef*>(part.bytes.data());
  return part.crc32.value_or(
      static_cast<std::uint32_t>(::crc32(0, bytes, static_cast<uInt>(part.bytes.size()))));
}

std::string local_header(const ZipPart& part) {
  const std::string name = part.local_name.value_or(part.name);
  return "PK\3\4" + little_endian_bytes(0, 2) + little_endian_bytes(part.flags, 2) +
         little_endian_bytes(part.method, 2) + little_endian_bytes(0, 8) +
         little_endian_bytes(part.local_size, 4) + little_endian_bytes(part.local_size, 4) +
         little_endian_bytes(name.size(), 2) + little_endian_bytes(part.local_extra.size(), 2) + name +
         part.local_extra;
}

std::string central_header(const ZipPart& part, std::size_t offset) {
  return "PK\1\2" + little_endian_bytes(0, 4) + little_endian_bytes(part.flags, 2) +
         little_endian_bytes(part.method, 2) + little_endian_bytes(0, 4) +
         little_endian_bytes(checksum(part), 4) +
         little_endian_bytes(part.packed.value_or(static_cast<std::uint32_t>(part.bytes.size())), 4) +
         little_endian_bytes(part.size.value_or(static_cast<std::uint32_t>(part.bytes.size())), 4) +
         little_endian_bytes(part.name.size(), 2) + little_endian_bytes(part.extra.size(), 2) +
         little_endian_bytes(0, 10) +
         little_endian_bytes(part.header_offset.value_or(static_cast<std::uint32_t>(offset)), 4) + part.name +
         part.extra;
}

std::string end64(const ZipEnd& end, std::size_t entries, std::size_t begin, std::size_t bytes) {
  const std::uint64_t count = end.entries64.value_or(entries);
  return "PK\6\6" + little_endian_bytes(44, 8) + little_endian_bytes(0, 12) + little_endian_bytes(count, 8) +
         little_endian_bytes(count, 8) + little_endian_bytes(end.bytes64.value_or(bytes), 8) +
         little_endian_bytes(end.begin64.value_or(begin), 8) + "PK\6\7" + little_endian_bytes(0, 4) +
         little_endian_bytes(end.locator.value_or(begin + bytes), 8) + little_endian_bytes(1, 4);
}

}  // namespace

std::string zip_bytes(const std::vector<ZipPart>& parts, const ZipEnd& end) {
  std::string file, directory;
  for (const ZipPart& part : parts) {
    directory += central_header(part, file.size());
    file += local_header(part) + part.bytes;
  }
  const std::size_t begin = file.size();
  file += directory;
  if (end.zip64) file += end64(end, parts.size(), begin, directory.size());
  const auto entries = end.entries.value_or(static_cast<std::uint16_t>(parts.size()));
  return file + "PK\5\6" + little_endian_bytes(0, 4) + little_endian_bytes(entries, 2) +
         little_endian_bytes(entries, 2) +
         little_endian_bytes(end.bytes.value_or(static_cast<std::uint32_t>(directory.size())), 4) +
         little_endian_bytes(end.begin.value_or(static_cast<std::uint32_t>(begin)), 4) +
         little_endian_bytes(end.comment.size(), 2) + end.comment;
}

std::string torch_zip(const std::string& pickle, const std::vector<std::string>& storages) {
  std::vector<ZipPart> parts = {{.name = "archive/data.pkl", .bytes = pickle}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    parts.push_back({.name = "archive/data/" + std::to_string(i), .bytes = storages[i]});
  }
  parts.push_back({.name = "archive/version", .bytes = "3\n"});
  return zip_bytes(parts);
}

std::string old_torch(const std::string& pickle, const std::string& keys, const std::string& storages) {
  const std::string magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  return pickle::whole(magic) + pickle::whole(pickle::integer(1001)) +
         pickle::whole(pickle::dict({pickle::text("little_endian"), "\x88"})) + pickle + keys + storages;
}

}  // namespace moh::test
