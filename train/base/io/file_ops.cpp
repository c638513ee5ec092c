#include "train/base/io/file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "train/base/io/failpoint.h"
#include "train/base/io/printable.h"
#include "train/base/io/system_random.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

std::string bytes_free_at(const fs::path& path) {
  struct statvfs status {};
  if (::statvfs(folder_of(path).c_str(), &status) != 0) return "an unknown number of bytes";
  return std::to_string(static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize) + " bytes";
}

std::string_view remedy(int error) {
  switch (error) {
    case ENOSPC:
      return "make room on this disk or choose another one";
    case EDQUOT:
      return "make room within your quota or choose another disk";
    case EFBIG:
      return "raise the file size limit (ulimit -f)";
    default:
      return "";
  }
}

void throw_if(int error, const fs::path& path, std::string_view operation) {
  if (error != 0) throw_storage_error(path, operation, error);
}

/// Makes a system call unless the failure point injects an error; returns 0 or the errno.
template <class Call>
int attempt(int injected, Call&& call) {
  if (injected > 0) return injected;
  return call() == 0 ? 0 : errno;
}

bool folder_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace

void make_directory(const fs::path& path) {
  const int error = attempt(MOH_FAILPOINT("io:mkdir"), [&] { return ::mkdir(path.c_str(), 0777); });
  if (error == EEXIST && folder_exists(path)) return;  // another process was faster
  throw_if(error, path, "mkdir");
  MOH_TRACE_IO(kMakeDirectory, path);
}

fs::path folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

void throw_storage_error(const fs::path& path, std::string_view operation, int error,
                         std::uint64_t needed_bytes) {
  const std::string reason = std::generic_category().message(error);
  const std::string_view fix = remedy(error);
  if (fix.empty()) throw StorageError(error_message(path.string(), operation, "success", reason));
  const std::string room =
      needed_bytes == 0 ? "room" : "room for " + std::to_string(needed_bytes) + " more bytes";
  throw StorageError(
      error_message(path.string(), operation, room, bytes_free_at(path) + " free (" + reason + ")", fix));
}

void throw_open_error(const fs::path& path, int error) {
  if (error != ELOOP) throw_storage_error(path, "open", error);
  throw StorageError(error_message(path.string(), "", "a file of this run", "a symbolic link",
                                   "remove the link (the run folder itself may be a link)"));
}

int open_to_append(const fs::path& path) {
  const int fd =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
  if (fd < 0) throw_open_error(path, errno);
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  throw StorageError(error_message(path.string(), "", "a regular file", "another kind"));
}

void ignore_file_size_signal() {
  struct sigaction current {};
  if (::sigaction(SIGXFSZ, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  current.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &current, nullptr);
}

void write_fully(int fd, const fs::path& path, std::span<const std::byte> bytes, std::uint64_t needed_bytes) {
  while (!bytes.empty()) {
    std::size_t size = bytes.size();
    ssize_t count = -1;
    if (const int injected = MOH_FAILPOINT("io:write"); injected > 0) {
      errno = injected;
    } else {
      if (injected != 0) size = (size + 1) / 2;
      count = ::write(fd, bytes.data(), size);
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_storage_error(path, "write", errno, needed_bytes);
    const auto written = static_cast<std::size_t>(count);
    MOH_TRACE_IO(kWrite, path, {}, bytes.first(written));
    bytes = bytes.subspan(written);
    needed_bytes -= std::min<std::uint64_t>(needed_bytes, written);
  }
}

void sync_file(int fd, const fs::path& path) {
  throw_if(attempt(MOH_FAILPOINT("io:fsync"), [&] { return ::fsync(fd); }), path, "fsync");
  MOH_TRACE_IO(kSyncFile, path);
}

void sync_directory(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_storage_error(path, "open", errno);
  const int error = attempt(MOH_FAILPOINT("io:fsync_dir"), [&] { return ::fsync(fd); });
  ::close(fd);
  // EINVAL: the file system does not support fsync of folders, which is not a failed write.
  if (error != EINVAL) throw_if(error, path, "fsync of the folder");
  MOH_TRACE_IO(kSyncDirectory, path);
}

void make_directories(const fs::path& path) {
  if (folder_exists(path)) return;
  make_directories(folder_of(path));
  make_directory(path);
  sync_directory(folder_of(path));
}

std::vector<fs::path> list_directory(const fs::path& path) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  throw_if(error.value(), path, "list");
  return entries;
}

void rename_path(const fs::path& from, const fs::path& to) {
  throw_if(attempt(MOH_FAILPOINT("io:rename"), [&] { return std::rename(from.c_str(), to.c_str()); }), from,
           "rename to " + to.filename().string());
  MOH_TRACE_IO(kRename, from, to);
}

bool exchange_paths(const fs::path& a, const fs::path& b) {
  const int error = attempt(MOH_FAILPOINT("io:exchange"), [&] {
    return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
  });
  if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP) return false;
  throw_if(error, a, "exchange with " + b.filename().string());
  MOH_TRACE_IO(kExchange, a, b);
  return true;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() == fs::file_type::directory) {
    for (const fs::path& entry : list_directory(path)) remove_tree(entry);
    throw_if(attempt(MOH_FAILPOINT("io:rmdir"), [&] { return ::rmdir(path.c_str()); }), path, "rmdir");
    MOH_TRACE_IO(kRemoveDirectory, path);
  } else {
    throw_if(attempt(MOH_FAILPOINT("io:unlink"), [&] { return ::unlink(path.c_str()); }), path, "unlink");
    MOH_TRACE_IO(kRemoveFile, path);
  }
}

std::string random_suffix() {
  const std::uint64_t bits = system_random();
  return hex_digits({reinterpret_cast<const char*>(&bits), sizeof bits});
}

}  // namespace moh
