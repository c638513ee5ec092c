#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "train/io/input_file.h"

namespace moh {

/// A file within a zip archive whose bytes lie there as they are.
struct ZipEntry {
  std::string name;          ///< never used as a path: "../x" is a name like any other
  std::uint64_t header = 0;  ///< where its local header begins
  std::uint64_t begin = 0;   ///< where its bytes begin in the archive
  std::uint64_t bytes = 0;   ///< there; of a compressed entry not those of its contents
  std::uint32_t crc32 = 0;
  std::uint16_t method = 0;  ///< of compression; 0: its bytes are its contents

  std::uint64_t end() const { return begin + bytes; }
};

using ZipEntries = std::map<std::string, ZipEntry, std::less<>>;

inline constexpr std::uint64_t kMaxZipDirectoryBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxZipEntries = 1 << 18;

/// The table of contents of a zip archive (APPNOTE.TXT of PKWARE, with Zip64), by name: read from the central
/// directory and compared with the headers in front of the entries. Refuses what PyTorch does not write:
/// encrypted entries, names twice, entries that overlap, archives in parts, sizes and places that contradict
/// each other or the file. Memory: a multiple of the directory, which kMaxZipDirectoryBytes bounds. Errors
/// are of the file's kind.
ZipEntries read_zip_directory(const InputFile& file);

/// Refuses compressed entries, which torch.save does not write.
void require_stored(const InputFile& file, const ZipEntries& entries);

/// Reads the entry once and throws the file's kind of error when its bytes do not have its CRC-32.
void verify_crc32(const InputFile& file, const ZipEntry& entry);

}  // namespace moh
