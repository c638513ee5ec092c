#pragma once

#include <string_view>

namespace moh {

/// Turns SIGINT, SIGTERM and SIGUSR1 (what batch systems send before the end) into a request to stop after
/// the present step, for the lifetime of the object. A second signal ends the process at once: a step may
/// take long.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
  /// "SIGTERM"; "" when nothing has arrived.
  std::string_view name() const;
};

}  // namespace moh
