#include "train/base/formats/npz_writer.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::uint16_t kZip64Version = 45, kZip64Field = 1;
constexpr std::uint16_t kFirstOfJanuary1980 = 0x21;  // the same file whenever it is written
constexpr std::uint32_t kInZip64 = 0xffffffff;

/// Little-endian numbers, one after the other.
class Record {
 public:
  Record& u16(std::uint64_t number) { return add(number, 2); }
  Record& u32(std::uint64_t number) { return add(number, 4); }
  Record& u64(std::uint64_t number) { return add(number, 8); }
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  std::string bytes() const { return bytes_; }

 private:
  Record& add(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(number >> (8 * i) & 0xff);
    return *this;
  }
  std::string bytes_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string type_of(const NpzArray& array) {
  switch (array.type) {
    case NpzArray::Type::kUint8:
      return "|u1";
    case NpzArray::Type::kInt64:
      return "<i8";
    case NpzArray::Type::kFloat32:
      return "<f4";
    case NpzArray::Type::kFloat64:
      return "<f8";
    case NpzArray::Type::kText:
      return "<U" + std::to_string(array.characters);
  }
  fail_check(__FILE__, __LINE__, "type", "unknown NpzArray::Type");
}

std::uint64_t element_bytes(const NpzArray& array) {
  switch (array.type) {
    case NpzArray::Type::kUint8:
      return 1;
    case NpzArray::Type::kInt64:
    case NpzArray::Type::kFloat64:
      return 8;
    case NpzArray::Type::kFloat32:
      return 4;
    case NpzArray::Type::kText:
      return 4 * static_cast<std::uint64_t>(array.characters);
  }
  fail_check(__FILE__, __LINE__, "type", "unknown NpzArray::Type");
}

std::string npy_header(const NpzArray& array) {
  std::string extents;
  for (const std::int64_t extent : array.shape) extents += std::to_string(extent) + ", ";
  if (array.shape.size() > 1) extents.resize(extents.size() - 2);
  if (array.shape.size() == 1) extents.resize(extents.size() - 1);
  std::string text =
      "{'descr': '" + type_of(array) + "', 'fortran_order': False, 'shape': (" + extents + "), }";
  constexpr std::size_t kBefore = 10, kAligned = 64;
  text += std::string((kAligned - (kBefore + text.size() + 1) % kAligned) % kAligned, ' ') + '\n';
  return Record().text({"\x93NUMPY\x01\x00", 8}).u16(text.size()).text(text).bytes();
}

std::uint32_t crc_after(std::uint32_t crc, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, std::numeric_limits<std::int32_t>::max());
    crc = static_cast<std::uint32_t>(
        crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size())));
    bytes.remove_prefix(part.size());
  }
  return crc;
}

/// The characters of a text in UTF-8, at most `most`, zeros after them.
std::vector<std::uint32_t> characters_of(std::string_view text, std::size_t most) {
  constexpr std::uint32_t kReplacement = 0xfffd;
  std::vector<std::uint32_t> characters;
  for (std::size_t i = 0; i < text.size() && characters.size() < most;) {
    const std::size_t length = utf8_length(text.substr(i));
    const auto first = static_cast<unsigned char>(text[i]);
    std::uint32_t character = length == 0 ? kReplacement : length == 1 ? first : first & (0x7fU >> length);
    for (std::size_t k = 1; k < length; ++k)
      character = character << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fU);
    characters.push_back(character);
    i += std::max<std::size_t>(length, 1);
  }
  characters.resize(most);
  return characters;
}

}  // namespace

std::uint64_t NpzArray::bytes() const {
  std::uint64_t count = element_bytes(*this);
  for (const std::int64_t extent : shape) {
    MOH_CHECK(extent > 0, "NpzWriter: extents of 1 or more");
    count *= static_cast<std::uint64_t>(extent);
  }
  return count;
}

std::vector<NpzWriter::Entry> NpzWriter::laid_out(const std::vector<NpzArray>& arrays) {
  std::vector<Entry> entries;
  std::uint64_t begin = 0;
  for (const NpzArray& array : arrays) {
    Entry entry{.name = array.name + ".npy",
                .header = npy_header(array),
                .begin = begin,
                .bytes = array.bytes(),
                .characters = array.characters};
    entry.crc = crc_after(0, entry.header);
    begin = entry.end();
    entries.push_back(std::move(entry));
  }
  return entries;
}

NpzWriter::NpzWriter(const std::filesystem::path& path, const std::vector<NpzArray>& arrays)
    : entries_(laid_out(arrays)), file_(path, entries_.back().end() + directory().size()) {
  for (const Entry& entry : entries_)
    file_.write_at(entry.begin, bytes_of(entry.local_header() + entry.header));
}

void NpzWriter::write_bytes(std::size_t array, std::span<const std::byte> bytes) {
  Entry& entry = entries_.at(array);
  MOH_CHECK(bytes.size() <= entry.bytes - entry.written, "NpzWriter: as many elements as the shape has");
  file_.write_at(entry.data_begin() + entry.written, bytes);
  entry.crc = crc_after(entry.crc, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  entry.written += bytes.size();
}

void NpzWriter::write(std::size_t array, std::string_view text) {
  const auto most = static_cast<std::size_t>(entries_.at(array).characters);
  const std::vector<std::uint32_t> characters = characters_of(text, most);
  write_bytes(array, std::as_bytes(std::span(characters)));
}

void NpzWriter::commit() {
  for (const Entry& entry : entries_) {
    MOH_CHECK(entry.written == entry.bytes, "NpzWriter: all elements have been written");
    file_.write_at(entry.begin, bytes_of(entry.local_header()));  // now with the checksum
  }
  file_.write_at(entries_.back().end(), bytes_of(directory()));
  file_.commit();
}

std::uint64_t NpzWriter::Entry::data_begin() const {
  return begin + local_header().size() + header.size();
}

/// The fields with which both headers of an entry begin, after their signature, and after the version that
/// wrote it.
std::string NpzWriter::Entry::description(std::uint64_t extra_bytes) const {
  return Record()
      .u16(kZip64Version)
      .u16(0)  // flags
      .u16(0)  // stored
      .u16(0)
      .u16(kFirstOfJanuary1980)
      .u32(crc)
      .u32(kInZip64)
      .u32(kInZip64)
      .u16(name.size())
      .u16(extra_bytes)
      .bytes();
}

std::string NpzWriter::Entry::local_header() const {
  const std::string extra = Record().u16(kZip64Field).u16(16).u64(size()).u64(size()).bytes();
  return Record().u32(0x04034b50).text(description(extra.size())).text(name).text(extra).bytes();
}

std::string NpzWriter::Entry::directory_entry() const {
  const std::string extra = Record().u16(kZip64Field).u16(24).u64(size()).u64(size()).u64(begin).bytes();
  return Record()
      .u32(0x02014b50)
      .u16(kZip64Version)
      .text(description(extra.size()))
      .u16(0)  // comment
      .u16(0)  // disk
      .u16(0)
      .u32(0600U << 16)  // a file that its owner may read and write
      .u32(kInZip64)     // where the local header begins
      .text(name)
      .text(extra)
      .bytes();
}

std::string NpzWriter::directory() const {
  std::string list;
  for (const Entry& entry : entries_) list += entry.directory_entry();
  const std::uint64_t count = entries_.size(), begin = entries_.back().end();
  const std::string end = Record()
                              .u32(0x06064b50)
                              .u64(44)
                              .u16(kZip64Version)
                              .u16(kZip64Version)
                              .u32(0)
                              .u32(0)
                              .u64(count)
                              .u64(count)
                              .u64(list.size())
                              .u64(begin)
                              .bytes();
  const std::string locator = Record().u32(0x07064b50).u32(0).u64(begin + list.size()).u32(1).bytes();
  return list + end + locator +
         Record()
             .u32(0x06054b50)
             .u16(0)
             .u16(0)
             .u16(count)
             .u16(count)
             .u32(list.size())
             .u32(kInZip64)
             .u16(0)
             .bytes();
}

}  // namespace moh
