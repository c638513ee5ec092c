#pragma once

#include <cstdint>
#include <string>

#include "core/function_ref.h"
#include "train/base/io/input_file.h"

namespace moh {

/// A regular file inside of a tar archive.
struct TarMember {
  std::string name;          ///< as stored: untrusted, and no path of this machine
  std::uint64_t offset = 0;  ///< of its first byte in the archive
  std::uint64_t size = 0;
};

/// Calls `visit` for each regular file of an uncompressed tar archive, in order: ustar, GNU's long names and
/// large sizes, pax' `path` and `size`. Folders, links and devices are passed over. Throws DataError for a
/// file that is no such archive or is damaged (a header's checksum, a size beyond the end), for compressed
/// archives, and for sparse files.
void read_tar(const InputFile& file, FunctionRef<void(const TarMember&)> visit);

/// The name in the header before a member's bytes, for messages: of one with a name of more than 100 bytes it
/// may be the beginning. Empty where no header ends at `offset`.
std::string tar_name_before(const InputFile& file, std::uint64_t offset);

}  // namespace moh
