#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autograd/profile.h"
#include "core/loop_rehearsal.h"

namespace moh {

/// How an op's work in a training step is divided among many threads. Times are processor time of one step.
struct OpSchedule {
  std::string op;
  double serial_ms = 0;            ///< outside parallel loops, where one thread works; mean of the steps
  double in_loops_ms = 0;          ///< inside them: the sum over their chunks
  double busiest_ms = 0;           ///< inside them: of the thread that finishes last
  std::int64_t loops = 0;          ///< parallel loops of two chunks or more
  std::int64_t chunks = 0;         ///< of all of them together
  std::int64_t fewest_chunks = 0;  ///< of one of them

  /// How many times as fast as one thread.
  double speedup() const { return (serial_ms + in_loops_ms) / (serial_ms + busiest_ms); }
  /// The part of the loops' work that the busiest thread does; 1 / threads where it is divided evenly.
  double busiest_share() const { return in_loops_ms > 0 ? busiest_ms / in_loops_ms : 1; }
};

/// A training step as it would be divided among `threads` threads (core/loop_rehearsal.h).
struct StepSchedule {
  int threads = 0;
  OpSchedule all;               ///< the step: its ops, and what runs outside of them
  std::vector<OpSchedule> ops;  ///< those with most work first
};

/// Collects the parallel loops of steps that run the same ops. Of each chunk the fastest step counts: in one
/// step a chunk among hundreds is always late for reasons that are not its own, and the busiest thread would
/// be the unluckiest.
class ScheduleRecorder {
 public:
  void begin_step() { next_ = 0; }
  /// Adds a loop of the innermost op that runs; for LoopRehearsal's `observe`.
  void add(std::span<const double> chunk_seconds);
  /// The schedule, from the profiler's entries over `steps` steps that took `seconds`, all of processor time.
  StepSchedule summarize(std::span<const ProfileEntry> entries, std::int64_t steps, double seconds,
                         int threads) const;

 private:
  struct Loop {
    std::string op;  // "" outside ops
    std::vector<double> chunk_seconds;
    double measured = 0;  // sum over all chunks and steps
  };
  std::vector<Loop> loops_;  // of a step, in their order
  std::size_t next_ = 0;     // loop of the step under way
};

}  // namespace moh
