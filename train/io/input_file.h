#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace moh {

/// What a file is to its reader, and so the type of the errors about it.
enum class InputKind {
  kData,        ///< DataError
  kCheckpoint,  ///< CheckpointError
};

[[noreturn]] void throw_input_error(InputKind kind, const std::string& message);

/// A regular file open for reading at any position.
///
/// It is read, not mapped: a mapped file that somebody truncates kills the process with SIGBUS at the next
/// access, and the bytes may change between a check and their use. A read returns short, which is an error
/// with a name.
class InputFile {
 public:
  /// Throws the kind's error when the path is missing, unreadable or not a regular file.
  InputFile(std::filesystem::path path, InputKind kind);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  InputKind kind() const { return kind_; }
  /// Bytes at the time of opening.
  std::uint64_t size() const { return size_; }

  /// Fills `to` with the bytes from `offset` on. Throws the kind's error, naming `what` is read, when the
  /// file ends before or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> to, std::string_view what) const;

  /// The first `bytes` bytes, fewer when the file is shorter: what decides what it is.
  std::string first_bytes(std::size_t bytes) const;

  /// Throws the kind's error: "PATH: what: expected E, found F; fix".
  [[noreturn]] void fail(std::string_view what, std::string_view expected, std::string_view found,
                         std::string_view fix = "") const;

 private:
  /// Throws for an errno; of a checkpoint CheckpointAccessError, unless the file is missing.
  [[noreturn]] void fail_to_read(std::string_view what, std::string_view expected, int error) const;

  std::filesystem::path path_;
  InputKind kind_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

/// The whole of a text file of at most `limit_bytes`.
std::string read_text_file(const std::filesystem::path& path, InputKind kind, std::uint64_t limit_bytes);

/// The text of an untrusted file that holds one JSON object, of at most `max_bytes` and `max_depth` levels.
/// All that a parser would let through, or build without bound, is refused here: NUL, which it takes for the
/// end, keys that stand twice, of which it keeps the last, levels that overflow the stack of recursive code.
/// The text is UTF-8 and parses. Throws the kind's error, naming the file.
std::string read_json_object(const std::filesystem::path& path, InputKind kind, std::uint64_t max_bytes,
                             int max_depth);

}  // namespace moh
