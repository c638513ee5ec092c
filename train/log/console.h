#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "train/log/log_file.h"

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

/// How a line stands out on a terminal with colours.
enum class Tone { kPlain, kWarning, kError };

/// The one writer of the stream that people read: log lines, and below them a status line that is drawn over
/// and over (a progress bar). Each change is one write() under one lock, so that lines and bar never tear
/// each other. Thread-safe.
///
/// Nobody has to read: training outlives a stream that cannot be written any more, such as a closed terminal,
/// and one that nobody drains, such as the pipe of a stopped program. That one is waited for once, for
/// kPatienceSeconds; from then on lines are held, up to kMostHeldBytes, and further ones dropped, until it
/// takes lines again. It is told then how many are missing.
class Console {
 public:
  static constexpr double kPatienceSeconds = 5;
  static constexpr std::size_t kMostHeldBytes = 1 << 20;

  explicit Console(int fd) : Console(fd, detect_terminal(fd)) {}
  Console(int fd, TerminalTraits traits, double patience_seconds = kPatienceSeconds);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  const TerminalTraits& traits() const { return traits_; }
  /// Columns of the terminal now (people resize windows); 80 when unknown.
  int width() const;

  /// Writes whole lines above the status line; a missing newline at the end is added.
  void print(std::string_view lines, Tone tone = Tone::kPlain);
  /// Replaces the status line, which must fit the width and hold no newline. Nothing when not on a terminal.
  void set_status(std::string_view status);
  void clear_status() { set_status({}); }

  /// From here on all lines go into `file`, too, without colours, and those that were printed before go there
  /// first (kMostEarlyBytes of them). A file that cannot be written any more is given up with a warning.
  void copy_to(std::unique_ptr<LogFile> file);
  static constexpr std::size_t kMostEarlyBytes = 1 << 16;

 private:
  void copy(std::string_view lines);
  void put(std::string_view lines);
  bool write(std::string bytes);
  bool flush(double patience_seconds);
  bool wait_for_room(double deadline) const;

  const int fd_;
  const int own_fd_;  // of the same stream, and does not wait for readers; fd_ where there is no such
  const TerminalTraits traits_;
  const double patience_seconds_;
  std::mutex mutex_;
  std::string status_;
  std::string held_;  // what could not be written yet
  std::int64_t dropped_lines_ = 0;
  bool is_stalled_ = false;  // nobody reads: nothing waits
  std::string early_;        // lines before copy_to()
  std::unique_ptr<LogFile> file_;
};

}  // namespace moh
