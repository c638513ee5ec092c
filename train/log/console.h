#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace moh {

/// What the stream that people read can show.
struct TerminalTraits {
  bool is_terminal = false;  ///< understands "\r" and "erase to the end of the line"
  bool color = false;
  bool unicode = false;
};

/// Looks at the stream and at TERM, NO_COLOR (https://no-color.org), LC_ALL, LC_CTYPE and LANG. A terminal
/// whose TERM is unset or "dumb" counts as none.
TerminalTraits detect_terminal(int fd);

/// The one writer of the stream that people read: log lines, and below them a status line that is drawn over
/// and over (a progress bar). Each change is one write() under one lock, so that lines and bar never tear
/// each other. Thread-safe. A stream that cannot be written any more, such as a closed terminal, is ignored:
/// a training run outlives it.
class Console {
 public:
  explicit Console(int fd) : Console(fd, detect_terminal(fd)) {}
  Console(int fd, TerminalTraits traits) : fd_(fd), traits_(traits) {}
  ~Console() { clear_status(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  const TerminalTraits& traits() const { return traits_; }
  /// Columns of the terminal now (people resize windows); 80 when unknown.
  int width() const;

  /// Writes whole lines above the status line; a missing newline at the end is added.
  void print(std::string_view lines);
  /// Replaces the status line, which must fit the width and hold no newline. Nothing when not on a terminal.
  void set_status(std::string_view status);
  void clear_status() { set_status({}); }

 private:
  void write_all(std::string_view bytes) const;

  const int fd_;
  const TerminalTraits traits_;
  std::mutex mutex_;
  std::string status_;
};

}  // namespace moh
