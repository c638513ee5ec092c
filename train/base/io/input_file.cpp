#include "train/base/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/failpoint.h"
#include "train/base/io/json_fault.h"
#include "train/base/io/printable.h"
#include "train/base/io/stand_in.h"

namespace moh {

void throw_input_error(InputKind kind, const std::string& message) {
  if (kind == InputKind::kCheckpoint) throw CheckpointError(message);
  throw DataError(message);
}

namespace {

/// The first bytes of a file, without the failpoints of reading: they count what a command reads.
std::string begin_of(int fd) {
  std::string begin(kStandInBytes, '\0');
  const ssize_t count = ::pread(fd, begin.data(), begin.size(), 0);
  begin.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return begin;
}

/// The stand-in that lies in place of a file of this kind; null if the file may be what it is opened for. A
/// checkpoint is never a web page or compressed, data may be; a pointer of Git LFS is short, and never data.
const StandIn* stand_in_for(InputKind kind, int fd, std::uint64_t size) {
  if (kind != InputKind::kCheckpoint && size > kStandInBytes) return nullptr;
  const std::string begin = begin_of(fd);
  return kind == InputKind::kCheckpoint || is_lfs_pointer(begin) ? stand_in_of(begin) : nullptr;
}

}  // namespace

InputFile::InputFile(std::filesystem::path path, InputKind kind) : path_(std::move(path)), kind_(kind) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. It has no effect on regular files.
  const int injected = MOH_FAILPOINT("io:open");
  fd_ = injected > 0 ? -1 : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail_to_read("", "a readable file", injected > 0 ? injected : errno);
  struct stat status {};
  const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(fd_);
    fail("", "a regular file", S_ISDIR(status.st_mode) ? "a folder" : "something else");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (const StandIn* const other = stand_in_for(kind, fd_, size_)) {
    ::close(fd_);
    fail("", "the file", other->found, other->fix);
  }
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
    const int injected = MOH_FAILPOINT("io:read");
    const ssize_t count = injected > 0 ? -1 : ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (injected > 0) errno = injected;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_read(what, "readable bytes", errno);
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

void InputFile::fail_to_read(std::string_view what, std::string_view expected, int error) const {
  const std::string reason = std::generic_category().message(error);
  // A missing file of a checkpoint is damage; other errors are temporary problems of the system.
  if (kind_ != InputKind::kCheckpoint || error == ENOENT || error == ENOTDIR) fail(what, expected, reason);
  throw CheckpointAccessError(error_message(path_.string(), what, expected, reason));
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

std::string read_json_object(const std::filesystem::path& path, InputKind kind, std::uint64_t max_bytes,
                             int max_depth) {
  using nlohmann::json;
  std::string text = read_text_file(path, kind, max_bytes);
  const auto fail = [&](std::string_view what, std::string_view expected, std::string_view found) {
    const std::string note = stand_in_note(std::string_view(text).substr(0, kStandInBytes));
    throw_input_error(kind, error_message(path.string(), what, expected, found, note));
  };
  if (text.find('\0') != std::string::npos) fail("", "JSON text", "a NUL byte");
  std::vector<std::set<std::string>> keys(
      static_cast<std::size_t>(max_depth));  // of the objects that are being parsed, by level
  const auto check = [&](int depth, json::parse_event_t event, const json& parsed) {
    using enum nlohmann::detail::parse_event_t;
    if (event == object_start || event == array_start) {
      if (depth == 0 && event == array_start) fail("", "a JSON object", "an array");
      if (depth == max_depth) fail("", "at most " + std::to_string(max_depth) + " levels", "more");
      keys[static_cast<std::size_t>(depth)].clear();
    } else if (event == key) {
      const auto& name = parsed.get_ref<const std::string&>();
      const bool is_new = keys[static_cast<std::size_t>(depth - 1)].insert(name).second;
      if (!is_new) fail(printable(name), "this key once", "it twice");
    } else if (event == value && depth == 0) {
      fail("", "a JSON object", "another value");
    }
    return true;
  };
  try {
    [[maybe_unused]] const json parsed = json::parse(text, check);
  } catch (const json::exception&) {
    const bool one_line = text.find('\n') + 1 >= text.size() || text.find('\n') == std::string::npos;
    const JsonFault fault = find_json_fault(text);
    throw_input_error(kind,
                      error_message(path.string(), "", "JSON in UTF-8", fault.words(one_line), fault.fix));
  }
  return text;
}

}  // namespace moh
