#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train/families/images/data/archive_state.h"

namespace moh {

/// Where the pictures of a tar archive lie.
struct ShardIndex {
  std::vector<std::int64_t> offsets, sizes;  ///< of the pictures' bytes
  std::vector<std::int64_t> labels;          ///< numbers, or places in class_names
  std::vector<std::string> class_names;      ///< empty where labels are numbers

  std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()); }
};

/// The index that archive_samples() finds in the archive, checked as all indices are: pictures within the
/// archive, labels that are classes. Throws DataError.
ShardIndex make_shard_index(const std::filesystem::path& archive);

/// The index beside the archive if there is one of this state of it, else a new one, which is written there.
/// Warns where it cannot be written, and where a damaged one is made again. Throws DataError as
/// make_shard_index() does.
ShardIndex open_shard_index(const std::filesystem::path& archive, const ArchiveState& state);
ShardIndex open_shard_index(const std::filesystem::path& archive);

/// `.ARCHIVE.moh-index` in the archive's folder.
std::filesystem::path shard_index_path(const std::filesystem::path& archive);

/// Reads an index of an archive of `archive_bytes` in a state (ArchiveState::text()), untrusted. Throws
/// DataError, naming the index.
ShardIndex read_shard_index(const std::filesystem::path& path, std::uint64_t archive_bytes,
                            const std::string& archive_state);

}  // namespace moh
