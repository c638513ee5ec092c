#include "train/apps/cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

#include "core/error.h"
#include "train/base/io/file_ops.h"

namespace moh::cli {

void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free descriptor, which is the stream's, as those below it are open by now. It
    // is opened such that using the stream still fails, as it does for a closed one.
    if (::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) return;
  }
}

void require_written_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && !std::cout.bad()) return;
  // If an earlier write failed, its errno is lost.
  throw_storage_error("standard output", "write", errno != 0 ? errno : EIO);
}

}  // namespace moh::cli
