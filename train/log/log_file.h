#pragma once

#include <filesystem>
#include <string_view>

namespace moh {

/// A text file of a run that lines are added to, for people. Nothing is synced, and nothing depends on it.
class LogFile {
 public:
  /// Opens or makes the file. Throws StorageError, also for a symbolic link.
  explicit LogFile(std::filesystem::path path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Adds the text to the end, in one write where the disk has room. Throws StorageError.
  void append(std::string_view text);

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace moh
