#include "tests/support/child_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <system_error>

namespace moh {

namespace {

[[noreturn]] void run_body(int out, FunctionRef<std::string()> body) {
  int exit_code = 0;
  std::string output;
  try {
    output = body();
  } catch (const std::exception& error) {
    output = error.what();
    exit_code = 1;
  }
  std::size_t sent = 0;
  while (sent < output.size()) {
    const ssize_t count = ::write(out, output.data() + sent, output.size() - sent);
    if (count <= 0) ::_exit(2);
    sent += static_cast<std::size_t>(count);
  }
  ::_exit(exit_code);
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> block;
  for (ssize_t count; (count = ::read(fd, block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace

ChildResult run_in_child(FunctionRef<std::string()> body) {
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    ::close(ends[0]);
    run_body(ends[1], body);
  }
  ::close(ends[1]);
  ChildResult result;
  result.output = read_to_end(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace moh
