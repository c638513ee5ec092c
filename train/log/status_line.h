#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/function_ref.h"
#include "train/log/console.h"

namespace moh {

/// Seconds on a clock that never jumps.
double monotonic_seconds();

/// Shows how far a long piece of work is: on a terminal a line that is drawn over, at most ten times a
/// second; elsewhere a line every ten seconds.
class StatusLine {
 public:
  using Clock = std::function<double()>;

  /// `console` must live as long.
  explicit StatusLine(Console& console, Clock clock = monotonic_seconds);
  ~StatusLine() { finish(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Seconds since the work began.
  double elapsed() const { return clock_() - start_; }
  /// Shows what `text` returns when it is time to; `last` means that there is no later call.
  void update(FunctionRef<std::string()> text, bool last = false);
  /// Takes the line away.
  void finish() { console_.clear_status(); }

 private:
  Console& console_;
  Clock clock_;
  double pause_, start_, shown_;
};

/// Shows on stderr how far a long pass over a file is.
class ByteProgress {
 public:
  /// `doing` is the verb in front, "converting".
  ByteProgress(std::string doing, std::uint64_t total_bytes);

  void add(std::uint64_t bytes);
  void finish() { line_.finish(); }

 private:
  Console console_;
  std::string doing_;
  std::uint64_t total_, done_ = 0;
  StatusLine line_;
};

}  // namespace moh
