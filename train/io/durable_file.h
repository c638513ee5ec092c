#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace moh {

/// A new file being written from front to back, without a buffer of its own. Throws StorageError.
class OutputFile {
 public:
  /// Creates the file; it must not exist. `expected_bytes` is its final size when known: a full disk is then
  /// reported with the bytes that were still missing.
  explicit OutputFile(std::filesystem::path path, std::uint64_t expected_bytes = 0);
  /// Closes. What was not synced may be lost; the file is not removed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Replaces the first bytes of what was written. Nothing may be written behind them afterwards.
  void rewrite_beginning(std::span<const std::byte> bytes);
  /// Puts the contents on the disk and closes. The name is durable once the folder is synced.
  void sync_and_close();

 private:
  std::filesystem::path path_;
  std::uint64_t expected_ = 0;
  std::uint64_t written_ = 0;
  int fd_ = -1;
};

/// Writes a new file, synced.
void write_new_file(const std::filesystem::path& path, std::string_view contents);

/// A file that appears under its name complete and on the disk, or not at all; what had the name before stays
/// until then. Written under a temporary name beside it, synced, renamed, and the folder synced.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path, std::uint64_t expected_bytes = 0);
  /// Removes the temporary file unless commit() succeeded.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  void write(std::string_view text) { file_.write(text); }
  void rewrite_beginning(std::span<const std::byte> bytes) { file_.rewrite_beginning(bytes); }
  /// Publishes the file. Nothing may be written afterwards.
  void commit();

 private:
  std::filesystem::path path_;
  OutputFile file_;
  bool renamed_ = false;
};

/// For a command that writes a file where its option `option` says: throws ConfigError unless nothing has the
/// name, or a regular file that `overwrite` allows to replace. Devices, links and folders are never replaced.
void require_replaceable(std::string_view option, const std::filesystem::path& path, bool overwrite);

/// Writes `contents` as a DurableFile.
void write_file_durably(const std::filesystem::path& path, std::string_view contents);

/// A folder that appears under its name complete and on the disk, or not at all. Files are written, and each
/// synced (OutputFile), in a temporary folder beside it, which is renamed at the end. Throws StorageError.
class DurableFolder {
 public:
  /// Creates the temporary folder, and the folders above it where they are missing.
  explicit DurableFolder(std::filesystem::path path);
  /// Removes the temporary folder unless commit() succeeded.
  ~DurableFolder();
  DurableFolder(const DurableFolder&) = delete;
  DurableFolder& operator=(const DurableFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Publishes the folder. What had the name before changes places with it in one step, and is then removed:
  /// at every moment a complete folder has the name. Where the file system cannot exchange two names, the old
  /// folder is moved aside first (`.NAME.old-...`); a process that is killed between the two renames leaves
  /// it there for restore_replaced().
  void commit();

 private:
  /// Returns where the old folder is now.
  std::filesystem::path replace();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool renamed_ = false;
};

/// The name under which what is to be called `path` is written first: in the same folder, hidden, and one
/// that no other process picks.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

/// Gives a folder that a DurableFolder had moved aside its name back, where its process was killed before
/// another one took that. For the one process that writes this path, before it looks at what is there.
void restore_replaced(const std::filesystem::path& path);

/// Removes what DurableFiles and DurableFolders whose process was killed, or failed, left beside `path`:
/// temporary files, and folders that have been replaced. For the one process that writes this path: it would
/// take away what another is writing.
void remove_abandoned_temporaries(const std::filesystem::path& path);

}  // namespace moh
