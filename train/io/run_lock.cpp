#include "train/io/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <string>

#include "core/error.h"
#include "train/io/file_ops.h"
#include "train/io/printable.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxHolderBytes = 512;

std::string read_holder(int fd) {
  std::array<char, kMaxHolderBytes> text;
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  if (holder.ends_with('\n')) holder.pop_back();
  return printable(holder, kMaxHolderBytes);
}

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> since{};
  std::strftime(since.data(), since.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return "host " + std::string(host.data()) + ", process " + std::to_string(::getpid()) + ", since " +
         since.data();
}

}  // namespace

RunLock::RunLock(const fs::path& run_folder) : path_(run_folder / ".lock") {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
  if (fd < 0) throw_open_error(path_, errno);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string holder = read_holder(fd);
    ::close(fd);
    if (error != EWOULDBLOCK) throw_storage_error(path_, "lock", error);
    throw ConfigError(error_message(run_folder.string(), "", "a run folder that no other process uses",
                                    "one locked by " + (holder.empty() ? "an unnamed process" : holder),
                                    "stop that process or choose another output.dir"));
  }
  fd_ = fd;
  crashed_holder_ = read_holder(fd_);
  const std::string text = this_process() + '\n';
  // The text is for messages only: a full disk is no reason not to hold the lock.
  [[maybe_unused]] const bool named =
      ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, text.data(), text.size(), 0) > 0;
}

RunLock::~RunLock() {
  // Emptied, not removed: a process that has just opened the file would otherwise lock a file without a name.
  if (::ftruncate(fd_, 0) == 0) ::fsync(fd_);
  ::close(fd_);
}

}  // namespace moh
