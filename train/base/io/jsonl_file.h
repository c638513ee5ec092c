#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace moh {

/// An append-only log of JSON records, one per line, for a single writing process. A line is written in one
/// write(), so that readers see whole lines; a process that is killed meanwhile leaves at most one incomplete
/// line, which the next opening removes. Throws StorageError if it cannot be written.
class JsonlFile {
 public:
  /// Opens or creates the file and removes an incomplete last line.
  explicit JsonlFile(std::filesystem::path path);
  ~JsonlFile();
  JsonlFile(const JsonlFile&) = delete;
  JsonlFile& operator=(const JsonlFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Whether opening removed an incomplete last line.
  bool was_torn() const { return was_torn_; }

  /// Removes the records whose field "step" is above `step`, as a run that resumes from a checkpoint repeats
  /// those steps; also those of `step` whose "kind" is `repeated_kind` (empty: none). Lines without a step
  /// are kept. Atomic: after a crash the file is the old or the new one. Returns the number of removed
  /// records.
  std::int64_t drop_records_after(std::int64_t step, std::string_view repeated_kind = {});

  /// Appends one record, given without newline. If the disk is full the file is unchanged.
  void append(std::string_view record);

  /// Syncs to disk.
  void sync();

 private:
  void open();

  std::filesystem::path path_;
  int fd_ = -1;
  bool was_torn_ = false;
};

}  // namespace moh
