#include "train/base/formats/npz_writer.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::string_view kName = "arr_0.npy";
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

std::string npy_header(const std::vector<std::int64_t>& shape, NpzWriter::Type type) {
  std::string extents;
  for (const std::int64_t extent : shape) extents += std::to_string(extent) + ", ";
  if (shape.size() > 1) extents.resize(extents.size() - 2);
  if (shape.size() == 1) extents.resize(extents.size() - 1);
  const std::string descr = type == NpzWriter::Type::kUint8 ? "|u1" : "<f4";
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + extents + "), }";
  constexpr std::size_t kBefore = 10, kAligned = 64;
  text += std::string((kAligned - (kBefore + text.size() + 1) % kAligned) % kAligned, ' ') + '\n';
  return Record().text({"\x93NUMPY\x01\x00", 8}).u16(text.size()).text(text).bytes();
}

std::uint64_t product(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    MOH_CHECK(extent > 0, "NpzWriter: extents of 1 or more");
    count *= static_cast<std::uint64_t>(extent);
  }
  return count;
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

}  // namespace

NpzWriter::NpzWriter(const std::filesystem::path& path, const std::vector<std::int64_t>& shape, Type type)
    : NpzWriter(path, npy_header(shape, type), product(shape) * (type == Type::kUint8 ? 1 : sizeof(float))) {}

NpzWriter::NpzWriter(const std::filesystem::path& path, std::string header, std::uint64_t bytes)
    : header_(std::move(header)),
      bytes_(bytes),
      left_(bytes),
      file_(path, local_header().size() + header_.size() + bytes + directory().size()) {
  file_.write(local_header());
  append(header_);
}

void NpzWriter::append(std::string_view bytes) {
  crc_ = crc_after(crc_, bytes);
  file_.write(bytes);
}

void NpzWriter::write_bytes(std::span<const std::byte> bytes) {
  MOH_CHECK(bytes.size() <= left_, "NpzWriter: as many elements as the shape has");
  left_ -= bytes.size();
  append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void NpzWriter::commit() {
  MOH_CHECK(left_ == 0, "NpzWriter: all elements have been written");
  file_.write(directory());
  const std::string header = local_header();  // now with the checksum
  file_.rewrite_beginning(std::as_bytes(std::span(header)));
  file_.commit();
}

std::string NpzWriter::local_header() const {
  const std::uint64_t size = header_.size() + bytes_;
  return Record()
      .u32(0x04034b50)
      .u16(kZip64Version)
      .u16(0)  // flags
      .u16(0)  // stored
      .u16(0)
      .u16(kFirstOfJanuary1980)
      .u32(crc_)
      .u32(kInZip64)
      .u32(kInZip64)
      .u16(kName.size())
      .u16(20)  // of the field below
      .text(kName)
      .u16(kZip64Field)
      .u16(16)
      .u64(size)
      .u64(size)
      .bytes();
}

std::string NpzWriter::directory() const {
  const std::uint64_t size = header_.size() + bytes_;
  const std::string entry = Record()
                                .u32(0x02014b50)
                                .u16(kZip64Version)
                                .u16(kZip64Version)
                                .u16(0)
                                .u16(0)
                                .u16(0)
                                .u16(kFirstOfJanuary1980)
                                .u32(crc_)
                                .u32(kInZip64)
                                .u32(kInZip64)
                                .u16(kName.size())
                                .u16(20)
                                .u16(0)  // comment
                                .u16(0)  // disk
                                .u16(0)
                                .u32(0600U << 16)  // a file that its owner may read and write
                                .u32(0)            // where the local header begins
                                .text(kName)
                                .u16(kZip64Field)
                                .u16(16)
                                .u64(size)
                                .u64(size)
                                .bytes();
  const std::uint64_t begin = local_header().size() + size;
  const std::string end = Record()
                              .u32(0x06064b50)
                              .u64(44)
                              .u16(kZip64Version)
                              .u16(kZip64Version)
                              .u32(0)
                              .u32(0)
                              .u64(1)
                              .u64(1)
                              .u64(entry.size())
                              .u64(begin)
                              .bytes();
  const std::string locator = Record().u32(0x07064b50).u32(0).u64(begin + entry.size()).u32(1).bytes();
  return entry + end + locator +
         Record().u32(0x06054b50).u16(0).u16(0).u16(1).u16(1).u32(entry.size()).u32(kInZip64).u16(0).bytes();
}

}  // namespace moh
