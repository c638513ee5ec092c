#pragma once

#include "train/base/log/progress.h"

namespace moh {

/// The time of a run's training, which all its processes, one resuming after the other, add to.
class RunClock {
 public:
  explicit RunClock(double earlier_seconds) : earlier_(earlier_seconds) {}

  void start() { started_ = monotonic_seconds(); }
  /// Since start().
  double seconds() const { return monotonic_seconds() - started_; }
  double seconds_of_run() const { return earlier_ + seconds(); }

 private:
  double earlier_, started_ = 0;
};

}  // namespace moh
