#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "train/base/io/input_file.h"

namespace moh {

/// An entry of a zip archive.
struct ZipEntry {
  std::string name;          ///< never used as a path, so that "../x" is harmless
  std::uint64_t header = 0;  ///< offset of its local header in the archive
  std::uint64_t begin = 0;   ///< offset of its bytes in the archive
  std::uint64_t bytes = 0;   ///< size in the archive, after compression
  std::uint32_t crc32 = 0;
  std::uint16_t method = 0;  ///< compression method; 0: none

  std::uint64_t end() const { return begin + bytes; }
};

using ZipEntries = std::map<std::string, ZipEntry, std::less<>>;

inline constexpr std::uint64_t kMaxZipDirectoryBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxZipEntries = 1 << 18;

/// The entries of a zip archive (PKWARE's APPNOTE.TXT, with Zip64), by name: read from the central directory
/// and compared with the local headers. Refuses what PyTorch does not write: encrypted entries, duplicate
/// names, overlapping entries, multi-part archives, inconsistent sizes and offsets. Memory: a multiple of the
/// central directory, which kMaxZipDirectoryBytes bounds. Errors are of the file's kind.
ZipEntries read_zip_directory(const InputFile& file);

/// Throws if an entry is compressed, as torch.save does not compress.
void require_stored(const InputFile& file, const ZipEntries& entries);

/// Reads the whole entry and throws the file's kind of error if its CRC-32 is wrong.
void verify_crc32(const InputFile& file, const ZipEntry& entry);

}  // namespace moh
