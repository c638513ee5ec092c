#pragma once

#include <filesystem>
#include <string_view>

namespace moh {

/// The text log of a run, for people. Not synced; nothing reads it.
class LogFile {
 public:
  /// Opens or creates the file. Throws StorageError, also for a symbolic link.
  explicit LogFile(std::filesystem::path path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Appends the text, in one write() unless the disk is full. Throws StorageError.
  void append(std::string_view text);

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace moh
