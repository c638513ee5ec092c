#include "train/formats/torch/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "train/formats/torch/little_endian.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEndRecord = 0x06054b50;
constexpr std::uint32_t kEnd64Record = 0x06064b50;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;

constexpr std::size_t kLocalHeaderBytes = 30;
constexpr std::size_t kCentralHeaderBytes = 46;
constexpr std::size_t kEndRecordBytes = 22;
constexpr std::size_t kEnd64RecordBytes = 56;
constexpr std::size_t kEnd64LocatorBytes = 20;
constexpr std::size_t kMaxCommentBytes = 0xffff;

constexpr std::uint16_t kIn64 = 0xffff;  // "the value stands in the Zip64 record"
constexpr std::uint32_t kIn64Wide = 0xffffffff;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kEncrypted = 1 << 0;
constexpr std::uint16_t kSizesBehindData = 1 << 3;

constexpr std::string_view kNotWhole = "the file is truncated or damaged; fetch it again";
constexpr std::string_view kSaveAgain =
    "load it in Python and save it again with torch.save, which stores entries as they are";

std::string text(std::uint64_t number) {
  return std::to_string(number);
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// The record at the end of the file says where the directory is.
class DirectoryFinder {
 public:
  explicit DirectoryFinder(const InputFile& file) : file_(file) { find_end_record(); }

  Directory find() const {
    const auto record = std::span(tail_).subspan(record_);
    Directory directory{.entries = little_endian<std::uint16_t>(record, 10),
                        .begin = little_endian<std::uint32_t>(record, 16),
                        .bytes = little_endian<std::uint32_t>(record, 12)};
    if (little_endian<std::uint16_t>(record, 4) != little_endian<std::uint16_t>(record, 6) ||
        little_endian<std::uint16_t>(record, 8) != directory.entries) {
      file_.fail("end of the zip archive", "an archive in one file", "a part of one");
    }
    std::uint64_t end = position(record_);
    if (const auto at = end64_record()) {
      directory = read_end64(*at, directory);
      end = *at;
    } else if (directory.entries == kIn64 || directory.begin == kIn64Wide || directory.bytes == kIn64Wide) {
      file_.fail("end of the zip archive", "a Zip64 record in front of it", "none", kNotWhole);
    }
    check(directory, end);
    return directory;
  }

 private:
  std::uint64_t position(std::size_t in_tail) const { return file_.size() - tail_.size() + in_tail; }

  void find_end_record() {
    const std::uint64_t most = kEnd64LocatorBytes + kEndRecordBytes + kMaxCommentBytes;
    tail_.resize(std::min(file_.size(), most));
    file_.read(file_.size() - tail_.size(), tail_, "end of the zip archive");
    for (std::size_t comment = 0; comment + kEndRecordBytes <= tail_.size(); ++comment) {
      record_ = tail_.size() - kEndRecordBytes - comment;
      if (little_endian<std::uint32_t>(tail_, record_) == kEndRecord &&
          little_endian<std::uint16_t>(tail_, record_ + 20) == comment) {
        return;
      }
    }
    file_.fail("zip archive", "its directory at the end of the file", "none", kNotWhole);
  }

  /// Where the Zip64 record begins, if there is one.
  std::optional<std::uint64_t> end64_record() const {
    if (record_ < kEnd64LocatorBytes) return std::nullopt;
    const std::size_t locator = record_ - kEnd64LocatorBytes;
    if (little_endian<std::uint32_t>(tail_, locator) != kEnd64Locator) return std::nullopt;
    const auto at = little_endian<std::uint64_t>(tail_, locator + 8);
    if (position(locator) < kEnd64RecordBytes || at != position(locator) - kEnd64RecordBytes) {
      file_.fail("Zip64 locator", "a record right in front of it", "one at byte " + text(at), kNotWhole);
    }
    return at;
  }

  Directory read_end64(std::uint64_t at, const Directory& narrow) const {
    std::array<std::byte, kEnd64RecordBytes> record;
    file_.read(at, record, "Zip64 record");
    if (little_endian<std::uint32_t>(record, 0) != kEnd64Record ||
        little_endian<std::uint64_t>(record, 4) != kEnd64RecordBytes - 12) {
      file_.fail("Zip64 record", "its signature and its size", "other bytes", kNotWhole);
    }
    const Directory wide{.entries = little_endian<std::uint64_t>(record, 32),
                         .begin = little_endian<std::uint64_t>(record, 48),
                         .bytes = little_endian<std::uint64_t>(record, 40)};
    const auto agree = [](std::uint64_t a, std::uint64_t b, std::uint64_t in64) {
      return a == b || a == in64;
    };
    if (little_endian<std::uint64_t>(record, 24) != wide.entries ||
        !agree(narrow.entries, wide.entries, kIn64) || !agree(narrow.begin, wide.begin, kIn64Wide) ||
        !agree(narrow.bytes, wide.bytes, kIn64Wide)) {
      file_.fail("Zip64 record", "what the record behind it says", "something else", kNotWhole);
    }
    return wide;
  }

  void check(const Directory& directory, std::uint64_t end) const {
    if (directory.begin > end || directory.bytes != end - directory.begin) {
      file_.fail("zip directory", "one that ends at byte " + text(end),
                 text(directory.bytes) + " bytes from byte " + text(directory.begin), kNotWhole);
    }
    if (directory.bytes > ZipArchive::kMaxDirectoryBytes) {
      file_.fail("zip directory", "at most " + text(ZipArchive::kMaxDirectoryBytes) + " bytes",
                 text(directory.bytes));
    }
    const std::uint64_t most = std::min(directory.bytes / kCentralHeaderBytes, ZipArchive::kMaxEntries);
    if (directory.entries > most) {
      file_.fail("zip directory", "at most " + text(most) + " entries", text(directory.entries));
    }
  }

  const InputFile& file_;
  std::vector<std::byte> tail_;
  std::size_t record_ = 0;  // the end record, within tail_
};

/// The headers of one entry, in the directory and in front of its bytes.
class EntryReader {
 public:
  EntryReader(const InputFile& file, std::span<const std::byte> directory, std::uint64_t directory_begin)
      : file_(file), rest_(directory), directory_begin_(directory_begin) {}

  bool at_end() const { return rest_.empty(); }

  ZipEntry next() {
    const std::span<const std::byte> header = take(kCentralHeaderBytes);
    if (little_endian<std::uint32_t>(header, 0) != kCentralHeader) {
      file_.fail("zip directory", "the header of an entry", "other bytes", kNotWhole);
    }
    const auto name = take(little_endian<std::uint16_t>(header, 28));
    entry_ = {};
    entry_.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    extra_ = take(little_endian<std::uint16_t>(header, 30));
    take(little_endian<std::uint16_t>(header, 32));  // a comment
    read_sizes(header);
    check_local_header(header);
    return std::move(entry_);
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (rest_.size() < size) {
      file_.fail("zip directory", text(size) + " more bytes", text(rest_.size()), kNotWhole);
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view found, std::string_view fix) const {
    file_.fail("zip entry " + printable(entry_.name), expected, found, fix);
  }

  void read_sizes(std::span<const std::byte> header) {
    if ((little_endian<std::uint16_t>(header, 8) & kEncrypted) != 0) {
      fail("an entry that is not encrypted", "an encrypted one", kSaveAgain);
    }
    if (const auto method = little_endian<std::uint16_t>(header, 10); method != 0) {
      fail("an entry that is stored as it is", "one compressed by method " + text(method), kSaveAgain);
    }
    zip64_ = find_zip64();
    entry_.crc32 = little_endian<std::uint32_t>(header, 16);
    entry_.bytes = widened(little_endian<std::uint32_t>(header, 24));
    const std::uint64_t packed = widened(little_endian<std::uint32_t>(header, 20));
    entry_.header = widened(little_endian<std::uint32_t>(header, 42));
    if (little_endian<std::uint16_t>(header, 34) != 0) fail("an entry in this file", "one elsewhere", "");
    if (packed != entry_.bytes) {
      fail("as many bytes in the archive as in the entry, " + text(entry_.bytes), text(packed), kNotWhole);
    }
  }

  /// The value, or the next one of the Zip64 field when it does not fit where it should stand.
  std::uint64_t widened(std::uint32_t value) {
    if (value != kIn64Wide) return value;
    if (zip64_.size() < 8) fail("a Zip64 field with its size", "none", kNotWhole);
    const auto wide = little_endian<std::uint64_t>(zip64_, 0);
    zip64_ = zip64_.subspan(8);
    return wide;
  }

  std::span<const std::byte> find_zip64() const {
    std::span<const std::byte> rest = extra_;
    while (rest.size() >= 4) {
      const auto id = little_endian<std::uint16_t>(rest, 0), size = little_endian<std::uint16_t>(rest, 2);
      rest = rest.subspan(4);
      if (size > rest.size()) fail("fields within their frame", "one that leaves it", kNotWhole);
      if (id == kZip64Extra) return rest.first(size);
      rest = rest.subspan(size);
    }
    return {};
  }

  void check_local_header(std::span<const std::byte> central) {
    const std::uint64_t fixed = kLocalHeaderBytes + entry_.name.size();
    if (entry_.header > directory_begin_ || directory_begin_ - entry_.header < fixed) {
      fail("a header before the directory", "one at byte " + text(entry_.header), kNotWhole);
    }
    std::vector<std::byte> local(fixed);
    file_.read(entry_.header, local, "zip entry " + printable(entry_.name));
    const auto name = std::span(local).subspan(kLocalHeaderBytes);
    const bool same = little_endian<std::uint32_t>(local, 0) == kLocalHeader &&
                      little_endian<std::uint16_t>(local, 8) == little_endian<std::uint16_t>(central, 10) &&
                      little_endian<std::uint16_t>(local, 26) == entry_.name.size() &&
                      std::memcmp(name.data(), entry_.name.data(), name.size()) == 0;
    if (!same) fail("the same name and method in both its headers", "others", kNotWhole);
    check_local_size(local);
    entry_.begin = entry_.header + fixed + little_endian<std::uint16_t>(local, 28);
    if (entry_.begin > directory_begin_ || entry_.bytes > directory_begin_ - entry_.begin) {
      fail("bytes that end before the directory", text(entry_.bytes) + " from byte " + text(entry_.begin),
           kNotWhole);
    }
  }

  /// torch.save leaves 0 there, as the flag says; 2^32 - 1 points to a Zip64 field.
  void check_local_size(std::span<const std::byte> local) const {
    if ((little_endian<std::uint16_t>(local, 6) & kSizesBehindData) != 0) return;
    const auto bytes = little_endian<std::uint32_t>(local, 22);
    if (bytes != kIn64Wide && bytes != entry_.bytes) {
      fail("the same size in both its headers, " + text(entry_.bytes), text(bytes), kNotWhole);
    }
  }

  const InputFile& file_;
  std::span<const std::byte> rest_;
  std::uint64_t directory_begin_;
  ZipEntry entry_;
  std::span<const std::byte> extra_, zip64_;
};

void check_overlaps(const InputFile& file, std::span<const ZipEntry> entries) {
  std::vector<const ZipEntry*> order;
  for (const ZipEntry& entry : entries) order.push_back(&entry);
  std::ranges::sort(order, std::less<>(), &ZipEntry::header);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->header < order[i - 1]->end()) {
      file.fail("zip entry " + printable(order[i]->name), "bytes of its own",
                "some that belong to " + printable(order[i - 1]->name), kNotWhole);
    }
  }
}

}  // namespace

ZipArchive::ZipArchive(const InputFile& file) {
  const Directory directory = DirectoryFinder(file).find();
  std::vector<std::byte> bytes(directory.bytes);
  file.read(directory.begin, bytes, "zip directory");
  EntryReader reader(file, bytes, directory.begin);
  while (entries_.size() < directory.entries) entries_.push_back(reader.next());
  if (!reader.at_end()) file.fail("zip directory", text(directory.entries) + " entries", "more", kNotWhole);
  check_overlaps(file, entries_);
  index_names(file);
}

void ZipArchive::index_names(const InputFile& file) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!by_name_.emplace(entries_[i].name, i).second) {
      file.fail("zip entry " + printable(entries_[i].name), "this name once", "it twice");
    }
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
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
        "zip entry " + printable(entry.name), "CRC-32 " + text(entry.crc32), text(crc),
        "its bytes are damaged; fetch the file again, or, if it was saved without checksums, save it with "
        "torch.serialization.set_crc32_options(True)");
  }
}

}  // namespace moh
