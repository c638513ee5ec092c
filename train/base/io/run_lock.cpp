#include "train/base/io/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <ctime>
#include <string>
#include <string_view>

#include "core/error.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/printable.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxHolderBytes = 512;

// "host H, process P, since T".
constexpr std::string_view kHost = "host ", kProcess = ", process ";

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

std::string read_holder(int fd) {
  std::array<char, kMaxHolderBytes> text;
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  if (holder.ends_with('\n')) holder.pop_back();
  return printable(holder, kMaxHolderBytes);
}

}  // namespace

std::string describe_this_process() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> since{};
  std::strftime(since.data(), since.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return std::string(kHost) + host_name() + std::string(kProcess) + std::to_string(::getpid()) + ", since " +
         since.data();
}

std::optional<LockHolder> lock_holder(const fs::path& run_folder) {
  const int fd = ::open((run_folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  const std::string text = read_holder(fd);
  ::close(fd);
  const std::size_t process = text.rfind(kProcess);
  if (!text.starts_with(kHost) || process == std::string::npos || process < kHost.size()) return std::nullopt;
  LockHolder holder{.host = text.substr(kHost.size(), process - kHost.size())};
  pid_t pid = 0;
  const char* const digits = text.data() + process + kProcess.size();
  std::from_chars(digits, text.data() + text.size(), pid);
  holder.is_here = holder.host == host_name();
  holder.is_alive = holder.is_here && pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
  return holder;
}

RunLock::RunLock(const fs::path& run_folder) : path_(run_folder / ".lock") {
  // Another process may have removed the file (remove()) between opening and locking it.
  while (!lock()) ::close(fd_);
  crashed_holder_ = read_holder(fd_);
  const std::string text = describe_this_process() + '\n';
  // The text is for messages only, so a full disk is not an error here.
  [[maybe_unused]] const bool named =
      ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, text.data(), text.size(), 0) > 0;
}

RunLock::~RunLock() {
  // Emptied, not removed: this file marks the folder as that of a run.
  if (::ftruncate(fd_, 0) == 0) ::fsync(fd_);
  ::close(fd_);
}

/// Locks the file; false if the path no longer leads to the locked file.
bool RunLock::lock() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  fd_ = ::open(path_.c_str(), kFlags | O_EXCL, 0666);
  is_new_ = fd_ >= 0;
  if (!is_new_) fd_ = ::open(path_.c_str(), kFlags, 0666);
  if (fd_ < 0) throw_open_error(path_, errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return is_in_place();
  const int error = errno;
  const std::string holder = read_holder(fd_);
  ::close(fd_);
  if (error != EWOULDBLOCK) throw_storage_error(path_, "lock", error);
  throw ConfigError(error_message(folder_of(path_).string(), "", "a run folder that no other process uses",
                                  "one locked by " + (holder.empty() ? "an unnamed process" : holder),
                                  "stop that process or choose another output.dir"));
}

bool RunLock::is_in_place() const {
  struct stat named {
  }, locked{};
  return ::lstat(path_.c_str(), &named) == 0 && ::fstat(fd_, &locked) == 0 && named.st_ino == locked.st_ino &&
         named.st_dev == locked.st_dev;
}

void RunLock::require_in_place() const {
  if (is_in_place()) return;
  throw StorageError(error_message(folder_of(path_).string(), "", "the run folder that this process locked",
                                   "that it was removed, moved or replaced during the run",
                                   "restore it and continue with --resume, or start a new run"));
}

void RunLock::remove() const {
  if (is_in_place()) ::unlink(path_.c_str());
}

}  // namespace moh
