#pragma once

#include <signal.h>
#include <atomic>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/error.h"

namespace moh {

/// A run was asked to stop before its training began: nothing was written.
class StoppedEarly : public Error {
  using Error::Error;
};

/// Turns SIGINT, SIGTERM, SIGUSR1 (which batch systems send before the time limit) and SIGHUP (terminal
/// closed) into a request to stop after the current micro-batch, batch of an evaluation or token of a sample,
/// for the lifetime of the object. A second signal ends the process at once: a micro-batch may take long.
/// Signals that were ignored before stay ignored: SIGHUP under nohup, SIGINT in a background job of a script.
///
/// A thread of its own waits for the signals, and all threads started later block them, so construct this
/// object before any: no handler interrupts a thread that computes or writes a file. They stay blocked after
/// it: a signal between the end of the work and that of the process must not make a success a failure.
class StopSignal {
 public:
  /// Called on the waiting thread with the name of a signal that arrives before defer(); may end the process.
  using Early = std::function<void(std::string_view name)>;

  /// In place of a signal: another part of the program has asked for the stop.
  static constexpr int kRequest = 1 << 16;
  /// Says by which signal, or kRequest, a run is to stop; 0: it goes on.
  struct Asked {
    std::function<int()> stop;
  };

  explicit StopSignal(Early early = {});
  /// Leaves signals to the program, which has handlers of its own, and asks it in their place, on the thread
  /// of the run, until it says stop.
  explicit StopSignal(Asked asked);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// From this call on signals request a stop, as there is something to save or the work is over. Before it,
  /// a signal ends the process as soon as `early` has returned; if one is doing so, this waits for the end.
  /// Where the program is asked, throws StoppedEarly if it says stop.
  void defer();

  bool requested() const { return number() != 0; }
  /// The number of the signal, or kRequest; 0 when nothing has arrived.
  int number() const;
  /// "SIGTERM", "request"; "" for 0.
  static std::string_view name_of(int number);
  std::string_view name() const { return name_of(number()); }

 private:
  void watch();
  void end_early(int number);

  Early early_;
  Asked asked_;
  bool wake_up_is_ignored_ = false;
  sigset_t signals_;
  std::mutex deferring_;  // held while a signal ends the process
  bool deferred_ = false;
  std::atomic<bool> ending_ = false;
  mutable std::atomic<int> received_ = 0;
  std::thread watcher_;
};

}  // namespace moh
