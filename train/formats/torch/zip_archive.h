#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/io/input_file.h"

namespace moh {

/// A file within a zip archive whose bytes lie there as they are.
struct ZipEntry {
  std::string name;          ///< never used as a path: "../x" is a name like any other
  std::uint64_t header = 0;  ///< where its local header begins
  std::uint64_t begin = 0;   ///< where its bytes begin in the archive
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;

  std::uint64_t end() const { return begin + bytes; }
};

/// The table of contents of a zip archive (APPNOTE.TXT of PKWARE, with Zip64), read from the central
/// directory and compared with the headers in front of the entries. Refuses what torch.save does not write:
/// compressed and encrypted entries, names twice, entries that overlap, archives in parts, sizes and places
/// that contradict each other or the file. Memory: a multiple of the directory, which kMaxDirectoryBytes
/// bounds. Errors are of the file's kind.
class ZipArchive {
 public:
  static constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMaxEntries = 1 << 18;

  /// `file` must outlive the archive.
  explicit ZipArchive(const InputFile& file);
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  /// In the order of the central directory.
  std::span<const ZipEntry> entries() const { return entries_; }
  /// The entry of that name, or nullptr.
  const ZipEntry* find(std::string_view name) const;

 private:
  std::vector<ZipEntry> entries_;
  std::map<std::string_view, const ZipEntry*> by_name_;
};

/// Reads the entry once and throws the file's kind of error when its bytes do not have its CRC-32.
void verify_crc32(const InputFile& file, const ZipEntry& entry);

}  // namespace moh
