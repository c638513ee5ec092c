#include "train/base/formats/torch/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "train/base/formats/records.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

using std::to_string;

// The records of the format (APPNOTE.TXT, section 4.3), without their parts of variable size.

struct [[gnu::packed]] LocalHeader {
  static constexpr std::uint32_t kSignature = 0x04034b50;
  std::uint32_t signature;
  std::uint16_t version, flags, method, time, date;
  std::uint32_t crc32, packed_bytes, bytes;
  std::uint16_t name_bytes, extra_bytes;
};

struct [[gnu::packed]] CentralHeader {
  static constexpr std::uint32_t kSignature = 0x02014b50;
  std::uint32_t signature;
  std::uint16_t made_by, version, flags, method, time, date;
  std::uint32_t crc32, packed_bytes, bytes;
  std::uint16_t name_bytes, extra_bytes, comment_bytes, disk, internal_attributes;
  std::uint32_t external_attributes, header;
};

struct [[gnu::packed]] EndRecord {
  static constexpr std::uint32_t kSignature = 0x06054b50;
  std::uint32_t signature;
  std::uint16_t disk, directory_disk, entries_on_disk, entries;
  std::uint32_t directory_bytes, directory_begin;
  std::uint16_t comment_bytes;
};

struct [[gnu::packed]] End64Record {
  static constexpr std::uint32_t kSignature = 0x06064b50;
  static constexpr std::uint64_t kBytesThatFollow = 44;
  std::uint32_t signature;
  std::uint64_t bytes_that_follow;
  std::uint16_t made_by, version;
  std::uint32_t disk, directory_disk;
  std::uint64_t entries_on_disk, entries, directory_bytes, directory_begin;
};

struct [[gnu::packed]] End64Locator {
  static constexpr std::uint32_t kSignature = 0x07064b50;
  std::uint32_t signature, disk;
  std::uint64_t record;
  std::uint32_t disks;
};

struct [[gnu::packed]] ExtraField {
  static constexpr std::uint16_t kZip64 = 1;
  std::uint16_t id, bytes;
};

constexpr std::size_t kMaxCommentBytes = 0xffff;
constexpr std::uint16_t kIn64 = 0xffff;  // marks a value that is in the Zip64 record
constexpr std::uint32_t kIn64Wide = 0xffffffff;
constexpr std::uint16_t kEncrypted = 1 << 0;
constexpr std::uint16_t kSizesBehindData = 1 << 3;

constexpr std::string_view kNotWhole = "the file is truncated or damaged; fetch it again";
constexpr std::string_view kSaveAgain =
    "load it in Python and save it again with torch.save, which stores entries as they are";

/// Position and number of entries of the central directory.
struct Directory {
  std::uint64_t entries, begin, bytes, end;
};

/// Offset of the end-of-central-directory record, which a comment of any length may follow.
std::uint64_t find_end_record(const InputFile& file) {
  std::vector<std::byte> tail(std::min<std::uint64_t>(file.size(), sizeof(EndRecord) + kMaxCommentBytes));
  file.read(file.size() - tail.size(), tail, "end of the zip archive");
  for (std::size_t comment = 0; comment + sizeof(EndRecord) <= tail.size(); ++comment) {
    const std::size_t at = tail.size() - comment - sizeof(EndRecord);
    const auto record = record_at<EndRecord>(tail, at);
    const bool found = record.signature == EndRecord::kSignature && record.comment_bytes == comment;
    if (found) return file.size() - tail.size() + at;
  }
  file.fail("zip archive", "its directory at the end of the file", "none", kNotWhole);
}

/// The values of the Zip64 record, if a locator before the end record points to one. Checks that they agree
/// with those of the end record.
std::optional<Directory> find_in_zip64(const InputFile& file, std::uint64_t end_record,
                                       const Directory& narrow) {
  if (end_record < sizeof(End64Locator)) return std::nullopt;
  const std::uint64_t place = end_record - sizeof(End64Locator);
  const auto locator = read_record<End64Locator>(file, place, "Zip64 locator");
  if (locator.signature != End64Locator::kSignature) return std::nullopt;
  const std::uint64_t at = locator.record;
  if (place < sizeof(End64Record) || at != place - sizeof(End64Record)) {
    file.fail("Zip64 locator", "a record right in front of it", "one at byte " + to_string(at), kNotWhole);
  }
  const auto record = read_record<End64Record>(file, at, "Zip64 record");
  if (record.signature != End64Record::kSignature ||
      record.bytes_that_follow != End64Record::kBytesThatFollow)
    file.fail("Zip64 record", "its signature and its size", "other bytes", kNotWhole);
  const auto agree = [](std::uint64_t a, std::uint64_t b, std::uint64_t in64) { return a == b || a == in64; };
  if (record.entries_on_disk != record.entries || !agree(narrow.entries, record.entries, kIn64) ||
      !agree(narrow.begin, record.directory_begin, kIn64Wide) ||
      !agree(narrow.bytes, record.directory_bytes, kIn64Wide)) {
    file.fail("Zip64 record", "the values of the end record", "other values", kNotWhole);
  }
  return Directory{record.entries, record.directory_begin, record.directory_bytes, at};
}

void check_directory(const InputFile& file, const Directory& directory) {
  const auto& [entries, begin, bytes, end] = directory;
  if (begin > end || bytes != end - begin) {
    file.fail("zip directory", "one that ends at byte " + to_string(end),
              to_string(bytes) + " bytes from byte " + to_string(begin), kNotWhole);
  }
  if (bytes > kMaxZipDirectoryBytes) {
    file.fail("zip directory", "at most " + to_string(kMaxZipDirectoryBytes) + " bytes", to_string(bytes));
  }
  const std::uint64_t most = std::min(bytes / sizeof(CentralHeader), kMaxZipEntries);
  if (entries > most)
    file.fail("zip directory", "at most " + to_string(most) + " entries", to_string(entries));
}

Directory find_directory(const InputFile& file) {
  const std::uint64_t at = find_end_record(file);
  const auto record = read_record<EndRecord>(file, at, "end of the zip archive");
  if (record.disk != record.directory_disk || record.entries_on_disk != record.entries) {
    file.fail("end of the zip archive", "an archive in one file", "a part of one");
  }
  const Directory narrow{record.entries, record.directory_begin, record.directory_bytes, at};
  const auto wide = find_in_zip64(file, at, narrow);
  if (!wide && (narrow.entries == kIn64 || narrow.begin == kIn64Wide || narrow.bytes == kIn64Wide)) {
    file.fail("end of the zip archive", "a Zip64 record in front of it", "none", kNotWhole);
  }
  const Directory directory = wide.value_or(narrow);
  check_directory(file, directory);
  return directory;
}

/// Reads the headers of the entries, each in the central directory and before its bytes.
class EntryReader {
 public:
  EntryReader(const InputFile& file, std::span<const std::byte> directory, std::uint64_t directory_begin)
      : file_(file), rest_(directory), directory_begin_(directory_begin) {}

  bool at_end() const { return rest_.empty(); }

  ZipEntry next() {
    const auto header = record_at<CentralHeader>(take(sizeof(CentralHeader)));
    if (header.signature != CentralHeader::kSignature) {
      file_.fail("zip directory", "the header of an entry", "other bytes", kNotWhole);
    }
    const auto name = take(header.name_bytes);
    entry_ = {.name{reinterpret_cast<const char*>(name.data()), name.size()},
              .crc32 = header.crc32,
              .method = header.method};
    const auto extra = take(header.extra_bytes);
    take(header.comment_bytes);
    read_sizes(header, extra);
    check_local_header(header);
    return std::move(entry_);
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (rest_.size() < size) {
      file_.fail("zip directory", to_string(size) + " more bytes", to_string(rest_.size()), kNotWhole);
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found,
                         std::string_view fix = kNotWhole) const {
    file_.fail("zip entry " + printable(entry_.name), expected, found, fix);
  }

  void read_sizes(const CentralHeader& header, std::span<const std::byte> extra) {
    if ((header.flags & kEncrypted) != 0) {
      fail("an entry that is not encrypted", "an encrypted one", kSaveAgain);
    }
    std::span<const std::byte> zip64 = find_zip64(extra);
    whole_bytes_ = widened(header.bytes, zip64);
    entry_.bytes = widened(header.packed_bytes, zip64);
    entry_.header = widened(header.header, zip64);
    if (header.disk != 0) fail("an entry in this file", "one elsewhere", "");
    if (entry_.method == 0 && entry_.bytes != whole_bytes_) {
      fail("as many bytes in the archive as in the entry, " + to_string(whole_bytes_),
           to_string(entry_.bytes));
    }
  }

  std::span<const std::byte> find_zip64(std::span<const std::byte> fields) const {
    while (fields.size() >= sizeof(ExtraField)) {
      const auto field = record_at<ExtraField>(fields);
      fields = fields.subspan(sizeof(ExtraField));
      if (field.bytes > fields.size()) fail("fields within their frame", "one that leaves it");
      if (field.id == ExtraField::kZip64) return fields.first(field.bytes);
      fields = fields.subspan(field.bytes);
    }
    return {};
  }

  /// The value, or the next one of the Zip64 field if it does not fit in 32 bits.
  std::uint64_t widened(std::uint32_t value, std::span<const std::byte>& zip64) const {
    if (value != kIn64Wide) return value;
    if (zip64.size() < sizeof(std::uint64_t)) fail("a Zip64 field with its size", "none");
    const auto wide = record_at<std::uint64_t>(zip64);
    zip64 = zip64.subspan(sizeof(wide));
    return wide;
  }

  void check_local_header(const CentralHeader& central) {
    const std::uint64_t fixed = sizeof(LocalHeader) + entry_.name.size();
    if (entry_.header > directory_begin_ || directory_begin_ - entry_.header < fixed) {
      fail("a header before the directory", "one at byte " + to_string(entry_.header));
    }
    std::string bytes(fixed, '\0');
    file_.read(entry_.header, std::as_writable_bytes(std::span(bytes)),
               "zip entry " + printable(entry_.name));
    const auto local = record_at<LocalHeader>(std::as_bytes(std::span(bytes)));
    if (local.signature != LocalHeader::kSignature || local.method != central.method ||
        local.name_bytes != entry_.name.size() || !bytes.ends_with(entry_.name)) {
      fail("the same name and method in both its headers", "others");
    }
    // torch.save writes 0, as the flag allows; 2^32 - 1 points to a Zip64 field.
    if ((local.flags & kSizesBehindData) == 0 && local.bytes != kIn64Wide && local.bytes != whole_bytes_) {
      fail("the same size in both its headers, " + to_string(whole_bytes_), to_string(local.bytes));
    }
    entry_.begin = entry_.header + fixed + local.extra_bytes;
    if (entry_.begin > directory_begin_ || entry_.bytes > directory_begin_ - entry_.begin) {
      fail("bytes that end before the directory",
           to_string(entry_.bytes) + " from byte " + to_string(entry_.begin));
    }
  }

  const InputFile& file_;
  std::span<const std::byte> rest_;
  std::uint64_t directory_begin_;
  ZipEntry entry_;
  std::uint64_t whole_bytes_ = 0;  // size of the entry's contents
};

void check_overlaps(const InputFile& file, const ZipEntries& entries) {
  std::vector<const ZipEntry*> order;
  for (const auto& [name, entry] : entries) order.push_back(&entry);
  std::ranges::sort(order, std::less<>(), &ZipEntry::header);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->header < order[i - 1]->end()) {
      file.fail("zip entry " + printable(order[i]->name), "bytes of its own",
                "some that belong to " + printable(order[i - 1]->name), kNotWhole);
    }
  }
}

}  // namespace

ZipEntries read_zip_directory(const InputFile& file) {
  const Directory directory = find_directory(file);
  std::vector<std::byte> bytes(directory.bytes);
  file.read(directory.begin, bytes, "zip directory");
  EntryReader reader(file, bytes, directory.begin);
  ZipEntries entries;
  while (entries.size() < directory.entries) {
    const ZipEntry entry = reader.next();
    if (!entries.emplace(entry.name, entry).second) {
      file.fail("zip entry " + printable(entry.name), "this name once", "it twice");
    }
  }
  if (!reader.at_end()) {
    file.fail("zip directory", to_string(directory.entries) + " entries", "more", kNotWhole);
  }
  check_overlaps(file, entries);
  return entries;
}

void require_stored(const InputFile& file, const ZipEntries& entries) {
  for (const auto& [name, entry] : entries) {
    if (entry.method == 0) continue;
    file.fail("zip entry " + printable(name), "an entry that is stored as it is",
              "one compressed by method " + to_string(entry.method), kSaveAgain);
  }
}

void verify_crc32(const InputFile& file, const ZipEntry& entry) {
  constexpr std::uint64_t kBlock = 1 << 20;
  std::vector<std::byte> block(std::min(entry.bytes, kBlock));
  uLong crc = ::crc32(0, nullptr, 0);
  for (std::uint64_t at = 0; at < entry.bytes; at += block.size()) {
    block.resize(std::min(kBlock, entry.bytes - at));
    file.read(entry.begin + at, block, "zip entry " + printable(entry.name));
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(block.data()), static_cast<uInt>(block.size()));
  }
  if (crc != entry.crc32) {
    file.fail(
        "zip entry " + printable(entry.name), "CRC-32 " + to_string(entry.crc32), to_string(crc),
        "its bytes are damaged; fetch the file again, or, if it was saved without checksums, save it with "
        "torch.serialization.set_crc32_options(True)");
  }
}

}  // namespace moh
