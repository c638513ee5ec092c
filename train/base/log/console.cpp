#include "train/base/log/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/base/log/progress.h"

namespace moh {

namespace {

constexpr const char* kProgress = "MOH_PROGRESS";
constexpr std::string_view kBar = "bar", kLines = "lines";
constexpr std::string_view kToLineStart = "\r";
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::string_view kEraseRest = "\x1b[K";

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Whether the locale of the environment uses UTF-8. The first variable that is set decides, as in POSIX. The
/// C library would answer this after setlocale() only, which changes how numbers are printed elsewhere.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(environment(name));
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

/// A separate, non-blocking file description of a pipe or terminal, as O_NONBLOCK on `fd` would affect other
/// processes that share it, such as the shell. `fd` itself for files, which never block.
int without_waiting(int fd) {
  struct stat status {};
  const bool has_readers = ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || ::isatty(fd) == 1);
  if (!has_readers) return fd;
  const std::string name = "/proc/self/fd/" + std::to_string(fd);
  const int own = ::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  return own < 0 ? fd : own;
}

/// As ::write, but non-blocking for sockets, too: fails with EAGAIN.
ssize_t write_without_waiting(int fd, std::string_view bytes) {
  const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno == ENOTSOCK ? ::write(fd, bytes.data(), bytes.size()) : sent;
}

/// Whether what the launcher of this process writes of its stream `fd` goes to a terminal. mpirun on this
/// machine is the parent; on others its daemon is, which has none.
bool launcher_has_terminal(int fd) {
  std::error_code failed;
  const std::string name = "/proc/" + std::to_string(::getppid()) + "/fd/" + std::to_string(fd);
  const std::string target = std::filesystem::read_symlink(name, failed).string();
  return !failed && (target.starts_with("/dev/pts/") || target.starts_with("/dev/tty"));
}

/// Whether a line may be redrawn on the stream.
bool shows_bars(int fd) {
  const std::string_view chosen = environment(kProgress), term = environment("TERM");
  if (chosen == kBar || chosen == kLines) return chosen == kBar;
  if (::isatty(fd) != 1 || term.empty() || term == "dumb") return false;
  return environment("OMPI_COMM_WORLD_SIZE").empty() || launcher_has_terminal(fd);
}

std::string_view color_of(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kWarning:
      return "\x1b[33m";
    case Tone::kError:
      return "\x1b[31m";
  }
  return "";
}

}  // namespace

void check_progress_variable() {
  const std::string_view chosen = environment(kProgress);
  if (chosen.empty() || chosen == "auto" || chosen == kBar || chosen == kLines) return;
  throw ConfigError(error_message("environment", kProgress, "auto, bar or lines",
                                  "'" + printable(std::string(chosen)) + "'"));
}

TerminalTraits detect_terminal(int fd) {
  TerminalTraits traits;
  traits.is_terminal = shows_bars(fd);
  traits.color = traits.is_terminal && environment("NO_COLOR").empty();
  traits.unicode = locale_is_utf8();
  return traits;
}

Console::Console(int fd, TerminalTraits traits, double patience_seconds)
    : fd_(fd), own_fd_(without_waiting(fd)), traits_(traits), patience_seconds_(patience_seconds) {}

Console::~Console() {
  constexpr double kLastPatienceSeconds = 0.5;
  clear_status();
  flush(is_stalled_ ? kLastPatienceSeconds : patience_seconds_);
  if (own_fd_ != fd_) ::close(own_fd_);
}

int Console::width() const {
  constexpr int kUsual = 80;
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

void Console::print(std::string_view lines, Tone tone) {
  if (lines.empty()) return;
  const std::lock_guard lock(mutex_);
  std::string text(lines.substr(0, lines.size() - (lines.back() == '\n' ? 1 : 0)));
  copy(text + '\n');
  if (traits_.color && tone != Tone::kPlain) text = std::string(color_of(tone)) + text + "\x1b[0m";
  put(text + '\n');
}

/// Appends to the log file, or to the buffer for it before copy_to().
void Console::copy(std::string_view lines) {
  if (file_ == nullptr) {
    early_ += lines.substr(0, kMostEarlyBytes - early_.size());
    return;
  }
  try {
    file_->append(lines);
  } catch (const StorageError& error) {
    file_.reset();
    put("warning: " + std::string(error.what()) + "; from now on lines go to this stream only\n");
  }
}

void Console::put(std::string_view lines) {
  if (!held_.empty()) {  // the status line is not shown
    if (held_.size() + lines.size() > kMostHeldBytes)
      dropped_lines_ += std::ranges::count(lines, '\n');
    else
      held_ += lines;
    flush(0);
  } else {
    const std::string_view erase = status_.empty() ? std::string_view() : kEraseLine;
    if (!write(std::string(erase).append(lines).append(status_)) && held_.ends_with(status_))
      held_.resize(held_.size() - status_.size());
  }
}

void Console::set_status(std::string_view status) {
  if (!traits_.is_terminal) return;
  const std::lock_guard lock(mutex_);
  if (flush(0)) {
    // Text first, then erase the rest of the old one: erasing first would flicker.
    const bool shown = status.empty() ? status_.empty() || write(std::string(kEraseLine))
                                      : write(std::string(kToLineStart).append(status).append(kEraseRest));
    if (!shown) held_.clear();
  }
  status_ = status;
}

void Console::copy_to(std::unique_ptr<LogFile> file) {
  const std::lock_guard lock(mutex_);
  file_ = std::move(file);
  copy(std::exchange(early_, {}));
}

/// Writes as much as the stream accepts within patience_seconds_; the rest stays in held_.
bool Console::write(std::string bytes) {
  held_ = std::move(bytes);
  return flush(patience_seconds_);
}

/// Writes held_; returns whether all of it has been written.
bool Console::flush(double patience_seconds) {
  const double deadline = monotonic_seconds() + patience_seconds;
  while (!held_.empty()) {
    const ssize_t written = write_without_waiting(own_fd_, held_);
    if (written > 0) {
      held_.erase(0, static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      if (wait_for_room(deadline)) continue;
      is_stalled_ = true;
      return false;
    } else if (written == 0 || errno != EINTR) {
      held_.clear();  // the stream is closed
    }
    if (held_.empty() && dropped_lines_ > 0) {
      held_ = "(" + std::to_string(std::exchange(dropped_lines_, 0)) +
              " lines are missing here: nobody read this stream for a while)\n";
    }
  }
  is_stalled_ = false;
  return true;
}

/// Waits until the stream accepts output or is closed; false if the deadline passes.
bool Console::wait_for_room(double deadline) const {
  pollfd stream{own_fd_, POLLOUT, 0};
  const double left = std::max(0.0, deadline - monotonic_seconds());
  return ::poll(&stream, 1, static_cast<int>(left * 1000)) != 0;
}

}  // namespace moh
