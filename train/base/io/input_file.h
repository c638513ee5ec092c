#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace moh {

/// The purpose of a file, which determines the type of errors about it.
enum class InputKind {
  kData,        ///< DataError
  kCheckpoint,  ///< CheckpointError
};

[[noreturn]] void throw_input_error(InputKind kind, const std::string& message);

/// A regular file open for reading at any position.
///
/// The file is read, not memory-mapped: truncating a mapped file kills the process with SIGBUS at the next
/// access, and its bytes may change between a check and their use. A short read is an ordinary error.
class InputFile {
 public:
  /// Throws the kind's error if the path is missing, unreadable or not a regular file.
  InputFile(std::filesystem::path path, InputKind kind);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  InputKind kind() const { return kind_; }
  /// Bytes at the time of opening.
  std::uint64_t size() const { return size_; }

  /// Fills `to` with the bytes from `offset` on. Throws the kind's error if the file is too short or cannot
  /// be read; `what` names what is read there.
  void read(std::uint64_t offset, std::span<std::byte> to, std::string_view what) const;

  /// The first `bytes` bytes, or fewer if the file is shorter, for detecting its format.
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

/// The text of an untrusted file that contains one JSON object, of at most `max_bytes` bytes and `max_depth`
/// levels of nesting. Checks what the JSON library does not: it ends at a NUL, keeps the last of duplicate
/// keys, and overflows the stack on deep nesting; all of these are refused. The text is valid UTF-8 and JSON.
/// Throws the kind's error, naming the file.
std::string read_json_object(const std::filesystem::path& path, InputKind kind, std::uint64_t max_bytes,
                             int max_depth);

}  // namespace moh
