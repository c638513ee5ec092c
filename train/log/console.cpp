#include "train/log/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace moh {

namespace {

constexpr std::string_view kToLineStart = "\r";
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::string_view kEraseRest = "\x1b[K";

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Whether the locale of the environment says UTF-8. The first variable that is set decides, as in POSIX; the
/// C library is not asked, since that would need setlocale(), which changes how numbers are printed
/// elsewhere.
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

}  // namespace

TerminalTraits detect_terminal(int fd) {
  TerminalTraits traits;
  const std::string_view term = environment("TERM");
  traits.is_terminal = ::isatty(fd) == 1 && !term.empty() && term != "dumb";
  traits.color = traits.is_terminal && environment("NO_COLOR").empty();
  traits.unicode = locale_is_utf8();
  return traits;
}

int Console::width() const {
  constexpr int kUsual = 80;
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

void Console::print(std::string_view lines) {
  if (lines.empty()) return;
  const std::lock_guard lock(mutex_);
  std::string bytes(status_.empty() ? std::string_view() : kEraseLine);
  bytes += lines;
  if (lines.back() != '\n') bytes += '\n';
  bytes += status_;
  write_all(bytes);
}

void Console::set_status(std::string_view status) {
  if (!traits_.is_terminal) return;
  const std::lock_guard lock(mutex_);
  if (status.empty()) {
    if (!status_.empty()) write_all(kEraseLine);
  } else {
    // Text first, then erase what is left of the old one: erasing first would flicker.
    write_all(std::string(kToLineStart).append(status).append(kEraseRest));
  }
  status_ = status;
}

void Console::write_all(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace moh
