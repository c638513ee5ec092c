#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "train/base/log/log_file.h"

namespace moh {

/// The abilities of the output stream for people.
struct TerminalTraits {
  bool is_terminal = false;  ///< supports "\r" and "erase to the end of the line"
  bool color = false;
  bool unicode = false;
};

/// Determined from the stream and from TERM, NO_COLOR (https://no-color.org), LC_ALL, LC_CTYPE and LANG. If
/// TERM is unset or "dumb", is_terminal is false. A process that mpirun has started gets a
/// terminal from it whatever mpirun's own output is: there that of mpirun decides. MOH_PROGRESS=bar or lines
/// decides before all of these.
TerminalTraits detect_terminal(int fd);

/// Throws ConfigError for another value of MOH_PROGRESS than auto, bar and lines.
void check_progress_variable();

/// How a line is highlighted on a terminal with colours.
enum class Tone { kPlain, kWarning, kError };

/// The only writer of the output stream for people: log lines, and below them a status line that is redrawn
/// (a progress bar). Each change is one write() under a lock, so that lines and bar do not interleave.
/// Thread-safe.
///
/// A stream that cannot be written, such as a closed terminal, or that nobody reads, such as the pipe of a
/// stopped program, must not stop training. A blocked write is waited for once, for kPatienceSeconds; then
/// lines are buffered, up to kMostHeldBytes, and further ones dropped, until the stream accepts output again.
/// Then a line says how many were dropped.
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
  /// Current number of columns of the terminal (windows are resized); 80 if unknown.
  int width() const;

  /// Writes whole lines above the status line; a missing newline at the end is added.
  void print(std::string_view lines, Tone tone = Tone::kPlain);
  /// Replaces the status line, which must fit the width and contain no newline. No effect without a terminal.
  void set_status(std::string_view status);
  void clear_status() { set_status({}); }

  /// Copies all lines to `file`, too, without colours, starting with the first kMostEarlyBytes that were
  /// printed before. If the file can no longer be written, it is closed with a warning.
  void copy_to(std::unique_ptr<LogFile> file);
  static constexpr std::size_t kMostEarlyBytes = 1 << 16;

 private:
  void copy(std::string_view lines);
  void put(std::string_view lines);
  bool write(std::string bytes);
  bool flush(double patience_seconds);
  bool wait_for_room(double deadline) const;

  const int fd_;
  const int own_fd_;  // non-blocking, for the same stream; fd_ if that never blocks
  const TerminalTraits traits_;
  const double patience_seconds_;
  std::mutex mutex_;
  std::string status_;
  std::string held_;  // output that could not be written yet
  std::int64_t dropped_lines_ = 0;
  bool is_stalled_ = false;  // the stream is not read: further writes do not wait
  std::string early_;        // lines before copy_to()
  std::unique_ptr<LogFile> file_;
};

}  // namespace moh
