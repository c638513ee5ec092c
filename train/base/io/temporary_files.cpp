#include "train/base/io/temporary_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace moh {

namespace fs = std::filesystem;

namespace {

bool is_temporary_name(const std::string& name) {
  constexpr std::size_t kDigits = 16;
  const std::size_t tail = kTemporaryInfix.size() + kDigits;
  if (!name.starts_with('.') || name.size() <= tail + 1) return false;
  const std::string_view end = std::string_view(name).substr(name.size() - tail);
  return end.starts_with(kTemporaryInfix) &&
         end.find_first_not_of("0123456789abcdef", kTemporaryInfix.size()) == std::string_view::npos;
}

void remove_unless_locked(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (!fs::is_regular_file(status) && !fs::is_directory(status)) return;
  const int fd = lock_entry(path);
  if (fd < 0) return;
  fs::remove_all(path, ignored);
  ::close(fd);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int create_locked(const fs::path& path) {
  while (true) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat status {};
    // A process that looks for abandoned files may have removed it before it was locked.
    if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) != 0 || ::fstat(fd, &status) != 0 || status.st_nlink > 0)
      return fd;
    ::close(fd);
  }
}

int lock_entry(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(fs::symlink_status(path, ignored));
  const int flags = is_folder ? O_RDONLY | O_DIRECTORY : O_RDWR;
  const int fd = ::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

void remove_abandoned_temporaries_in(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    if (is_temporary_name(entry->path().filename().string())) found.push_back(entry->path());
  }
  for (const fs::path& path : found) remove_unless_locked(path);
}

void remove_abandoned_temporaries_once(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> seen;
  std::error_code ignored;
  const fs::path whole = fs::absolute(folder, ignored);
  {
    const std::lock_guard lock(mutex);
    if (!seen.insert(whole).second) return;
  }
  remove_abandoned_temporaries_in(folder);
}

}  // namespace moh
