#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace moh {

/// A state of an archive, which is told from others without reading the archive. Times are in nanoseconds.
struct ArchiveState {
  std::int64_t bytes = 0;
  std::int64_t inode = 0;
  std::int64_t modified = 0;  ///< time of the last write, which programs may set
  std::int64_t changed = 0;   ///< of the last change of the file or what the system knows of it (ctime)

  /// All of it, for an index that is kept: a copy that took over size and time has another inode, a file that
  /// was written and given its old time another ctime.
  std::string text() const;
  /// Whether the bytes can be those of the other state: a mere chmod or link changes `changed` alone.
  bool same_bytes(const ArchiveState& other) const {
    return bytes == other.bytes && inode == other.inode && modified == other.modified;
  }
};

/// Throws DataError for a file that is not there.
ArchiveState archive_state(const std::filesystem::path& archive);

/// Throws ChangedDataError unless the archive still has the bytes that it had in the state `before`.
void require_unchanged(const std::filesystem::path& archive, const ArchiveState& before);

}  // namespace moh
