#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace moh {

/// A log of JSON records, one per line, that only grows at its end; for one writing process at a time. A line
/// is written in one piece, so that a reader sees whole lines; a process killed in the middle leaves at most
/// one torn line, which the next opening cuts off. Throws StorageError for what cannot be written.
class JsonlFile {
 public:
  /// Opens or creates the file and repairs its end.
  explicit JsonlFile(std::filesystem::path path);
  ~JsonlFile();
  JsonlFile(const JsonlFile&) = delete;
  JsonlFile& operator=(const JsonlFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Whether opening found and removed a torn last line.
  bool was_torn() const { return was_torn_; }

  /// Removes the records whose field "step" is above `step`: a run that resumes from a checkpoint writes
  /// those steps again. `repeated_kind` is the "kind" of records that it writes again for `step` itself;
  /// empty for none. Lines without a step stay. Atomic: a crash leaves the old file or the new one. Returns
  /// the number of records removed.
  std::int64_t drop_records_after(std::int64_t step, std::string_view repeated_kind = {});

  /// Appends one record, given without its newline. When the disk is full the file keeps its previous end.
  void append(std::string_view record);

  /// Puts everything appended so far on the disk.
  void sync();

 private:
  void open();

  std::filesystem::path path_;
  int fd_ = -1;
  bool was_torn_ = false;
};

}  // namespace moh
