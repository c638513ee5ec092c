#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "core/cuda/collective_counts.h"

namespace moh {

/// Looks after collectives that run on a device, where nothing has a time limit: a thread that ends them when
/// one makes no progress, when their library reports an error, or when another process is lost. So the thread
/// that waits for the device comes back from there, and hears of it.
class CollectiveWatchdog {
 public:
  /// The state that the watchdog checks, on its own thread.
  struct Watched {
    std::function<cuda::CollectiveCounts()> counts;
    std::function<void()> check;           ///< throws for an error of the library
    std::function<std::string()> trouble;  ///< of the other processes; empty for none
    std::function<void()> abort;           ///< ends what is under way on the device, or gives up in time
    std::function<void()> end_process;     ///< where not even that helps
  };
  /// Seconds between two looks, and from an abort to the end of a process that does not acknowledge it, or
  /// that acknowledges it and does not stop() the watchdog as long again: it waits for the device, which does
  /// not come back.
  struct Times {
    double between = 0.02, until_end = 60, until_stop = 30;
  };

  /// A collective may take `deadline` seconds on the device, waiting for others included; 0: any time.
  CollectiveWatchdog(Watched watched, double deadline, Times times);
  CollectiveWatchdog(Watched watched, double deadline)
      : CollectiveWatchdog(std::move(watched), deadline, Times()) {}
  /// Waits for the thread.
  ~CollectiveWatchdog();
  CollectiveWatchdog(const CollectiveWatchdog&) = delete;
  CollectiveWatchdog& operator=(const CollectiveWatchdog&) = delete;

  /// Whether it has ended the collectives.
  bool has_failed() const { return failed_; }
  /// Why, once has_failed(). Who asks lives, and is ended only if it does not stop().
  const std::string& acknowledge();
  /// Looks no more.
  void stop();

 private:
  void run();
  std::string look();
  void end_collectives();

  Watched watched_;
  double deadline_;
  Times times_;
  cuda::CollectiveCounts last_;
  double changed_ = 0;  // when `last_` was first seen
  std::string reason_;  // of the thread, until failed_
  std::atomic<bool> failed_ = false, acknowledged_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace moh
