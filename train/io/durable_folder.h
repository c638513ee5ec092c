#pragma once

#include <filesystem>

namespace moh {

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
  /// Publishes the folder. What had the name before is moved aside, under a hidden name, and removed once the
  /// new one is there; when the process is killed in between, it stays under that name (`.NAME.old-...`).
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool renamed_ = false;
};

}  // namespace moh
