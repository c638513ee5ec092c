#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moh {

/// Where the pictures of a tar archive lie.
struct ShardIndex {
  std::vector<std::int64_t> offsets, sizes;  ///< of the pictures' bytes
  std::vector<std::int64_t> labels;          ///< numbers, or places in class_names
  std::vector<std::string> class_names;      ///< empty where labels are numbers

  std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()); }
};

/// Reads the whole archive's headers. Throws DataError.
ShardIndex make_shard_index(const std::filesystem::path& archive);

/// The index beside the archive if there is one for its size and time of change, else a new one, which is
/// written there. Warns where it cannot be written. Throws DataError for a damaged archive; a damaged index
/// is made again.
ShardIndex open_shard_index(const std::filesystem::path& archive);

/// `.ARCHIVE.moh-index` in the archive's folder.
std::filesystem::path shard_index_path(const std::filesystem::path& archive);

/// Reads an index of an archive of `archive_bytes`, untrusted. Throws DataError.
ShardIndex read_shard_index(const std::filesystem::path& path, std::uint64_t archive_bytes,
                            const std::string& archive_state);

}  // namespace moh
