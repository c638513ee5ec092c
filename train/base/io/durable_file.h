#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace moh {

/// A new file that is written without a buffer, one piece after the other or at given places. Throws
/// StorageError.
class OutputFile {
 public:
  /// Creates the file; it must not exist. `expected_bytes` is its final size, if known: the error of a full
  /// disk then names the bytes that are still needed.
  explicit OutputFile(std::filesystem::path path, std::uint64_t expected_bytes = 0);
  /// Closes the file without syncing or removing it.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Writes bytes at a place of a file that is not written sequentially; write() cannot follow.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Syncs the contents to disk and closes. The name is durable once the folder is synced.
  void sync_and_close();
  /// Another descriptor of the open file, which keeps its lock when this object has closed it; the caller
  /// closes it. -1 where there is none.
  int hold() const;

 private:
  std::filesystem::path path_;
  std::uint64_t expected_ = 0;
  std::uint64_t written_ = 0;
  int fd_ = -1;
};

/// Writes a new file, synced.
void write_new_file(const std::filesystem::path& path, std::string_view contents);

/// Replaces a file atomically and durably: it is written under a temporary name in the same folder, synced
/// and renamed, and the folder is synced. Until then an existing file of that name is unchanged. The first
/// one of a process in a folder removes what killed processes left there (remove_abandoned_temporaries_in).
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path, std::uint64_t expected_bytes = 0);
  /// Removes the temporary file unless commit() succeeded.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  void write(std::string_view text) { file_.write(text); }
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) { file_.write_at(offset, bytes); }
  /// Publishes the file. Nothing may be written afterwards.
  void commit();

 private:
  std::filesystem::path path_;
  OutputFile file_;
  bool renamed_ = false;
};

/// For a command that writes the file of its option `option`: throws ConfigError unless the path does not
/// exist, or is a regular file and `overwrite` is set, and StorageError if its folder does not exist.
/// Devices, links and folders are never replaced.
void require_replaceable(std::string_view option, const std::filesystem::path& path, bool overwrite);

/// Writes `contents` as a DurableFile.
void write_file_durably(const std::filesystem::path& path, std::string_view contents);

/// Replaces a folder atomically and durably; removes, as DurableFile, what killed processes left. The caller
/// writes and syncs files (OutputFile) in a temporary folder with the same parent, which is renamed at the
/// end. Throws StorageError.
class DurableFolder {
 public:
  /// Creates the temporary folder, and missing parents.
  explicit DurableFolder(std::filesystem::path path);
  /// Removes the temporary folder unless commit() succeeded.
  ~DurableFolder();
  DurableFolder(const DurableFolder&) = delete;
  DurableFolder& operator=(const DurableFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Publishes the folder. An existing folder of that name is exchanged with it atomically and then removed:
  /// at any time a complete folder has the name. Where the file system cannot exchange two names, the old
  /// folder is renamed first (to `.NAME.old-...`); if the process is killed between the two renames,
  /// restore_replaced() restores it.
  void commit();

 private:
  /// Returns the path to which the old folder was moved.
  std::filesystem::path replace();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int lock_ = -1;  ///< of the temporary folder
  bool renamed_ = false;
};

/// A temporary name for `path`: in the same folder, hidden, and unique to this process.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

/// Restores the name of a folder that a DurableFolder had renamed, if its process was killed before the new
/// folder got the name. To be called by the only process that writes this path, before it checks the path.
void restore_replaced(const std::filesystem::path& path);

/// Removes temporary files and replaced folders of `path` that a DurableFile or DurableFolder could not
/// remove because its process was killed or failed. To be called by the only process that writes this path:
/// it would remove what another is writing.
void remove_abandoned_temporaries(const std::filesystem::path& path);

}  // namespace moh
