#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "core/threads.h"

namespace moh {

/// The use of a server's threads, for the error if the system refuses one.
inline constexpr ThreadUse kHttpThreads{"threads of the HTTP server"};

/// Work that is done by some threads in the order in which it came.
class WorkQueue {
 public:
  /// Throws ThreadError.
  explicit WorkQueue(std::size_t threads);

  /// An exception that leaves `work` is logged.
  void post(std::function<void()> work);
  /// Drops what has not begun, and waits for the rest.
  void end() { threads_.join(); }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  ThreadGroup threads_;  // last: they use the rest
};

}  // namespace moh
