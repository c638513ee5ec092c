#include "train/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace moh {

void throw_input_error(InputKind kind, const std::string& message) {
  if (kind == InputKind::kCheckpoint) throw CheckpointError(message);
  throw DataError(message);
}

InputFile::InputFile(std::filesystem::path path, InputKind kind) : path_(std::move(path)), kind_(kind) {
  // O_NONBLOCK: opening a FIFO must not wait for somebody to write to it. It means nothing for regular files.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail("", "a readable file", std::generic_category().message(errno));
  struct stat status {};
  const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(fd_);
    fail("", "a regular file", S_ISDIR(status.st_mode) ? "a folder" : "something else");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      kind_(other.kind_),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

void InputFile::read(std::uint64_t offset, std::span<std::byte> to, std::string_view what) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(what, "readable bytes", std::generic_category().message(errno));
    if (count == 0) {
      fail(what, std::to_string(to.size()) + " more bytes",
           "the end of the file at byte " + std::to_string(offset),
           "the file is truncated or shrank while it was read");
    }
    offset += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

std::string InputFile::first_bytes(std::size_t bytes) const {
  std::string first(std::min<std::uint64_t>(size_, bytes), '\0');
  read(0, std::as_writable_bytes(std::span(first)), "first bytes");
  return first;
}

void InputFile::fail(std::string_view what, std::string_view expected, std::string_view found,
                     std::string_view fix) const {
  throw_input_error(kind_, error_message(path_.string(), what, expected, found, fix));
}

std::string read_text_file(const std::filesystem::path& path, InputKind kind, std::uint64_t limit_bytes) {
  const InputFile file(path, kind);
  if (file.size() > limit_bytes) {
    file.fail("size", "at most " + std::to_string(limit_bytes) + " bytes", std::to_string(file.size()));
  }
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)), "contents");
  return text;
}

}  // namespace moh
