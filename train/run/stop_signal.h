#pragma once

#include <signal.h>
#include <atomic>
#include <string_view>
#include <thread>

namespace moh {

/// Turns SIGINT, SIGTERM and SIGUSR1 (what batch systems send before the end) into a request to stop after
/// the present step, or batch of an evaluation, for the lifetime of the object. A second signal ends the
/// process at once: a step may take long.
///
/// A thread of its own waits for the signals, and every thread that is started after the object blocks them,
/// so make it before others. No handler may run on a thread that computes: oneDNN's products keep the stack
/// register in the heap for a while (uxlfoundation/oneDNN#4845), where a handler's frame destroys other data.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// From here on there is something to save. Before it, a signal ends the process at once.
  void defer() { deferred_ = true; }

  bool requested() const { return received_ != 0; }
  /// "SIGTERM"; "" when nothing has arrived.
  std::string_view name() const;

 private:
  void watch();

  sigset_t previous_mask_;
  std::atomic<bool> deferred_ = false, ending_ = false;
  std::atomic<int> received_ = 0;
  std::thread watcher_;
};

}  // namespace moh
