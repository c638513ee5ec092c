#pragma once

#include <signal.h>
#include <atomic>
#include <functional>
#include <string_view>
#include <thread>

namespace moh {

/// Turns SIGINT, SIGTERM, SIGUSR1 (what batch systems send before the end) and SIGHUP (the terminal is gone)
/// into a request to stop after the present micro-batch, batch of an evaluation or token of a sample, for the
/// lifetime of the object. A second signal ends the process at once: a micro-batch may take long. What is
/// ignored when the object is made stays ignored: SIGHUP under nohup, SIGINT in a background job of a script.
///
/// A thread of its own waits for the signals, and every thread that is started after the object blocks them,
/// so make it before others. No handler may run on a thread that computes: oneDNN's products keep the stack
/// register in the heap for a while (uxlfoundation/oneDNN#4845), where a handler's frame destroys other data.
class StopSignal {
 public:
  /// Called on the thread that waits, with the name of a signal that comes before defer(); it may end the
  /// process.
  using Early = std::function<void(std::string_view name)>;

  explicit StopSignal(Early early = {});
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// From here on there is something to save. Before it, a signal ends the process at once, once `early` has
  /// returned.
  void defer() { deferred_ = true; }

  bool requested() const { return received_ != 0; }
  /// "SIGTERM"; "" when nothing has arrived.
  std::string_view name() const;

 private:
  void watch();

  Early early_;
  bool wake_up_is_ignored_;
  sigset_t previous_mask_, signals_;
  std::atomic<bool> deferred_ = false, ending_ = false;
  std::atomic<int> received_ = 0;
  std::thread watcher_;
};

}  // namespace moh
