#include "train/base/log/log_file.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "train/base/io/file_ops.h"

namespace moh {

LogFile::LogFile(std::filesystem::path path) : path_(std::move(path)), fd_(open_to_append(path_)) {
  ignore_file_size_signal();
}

LogFile::~LogFile() {
  ::close(fd_);
}

void LogFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_storage_error(path_, "write", errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace moh
