#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace moh {

/// Threads that all run one function, until they return from it.
class ServiceThreads {
 public:
  /// `ask_to_end` makes `work` return. Throws Error if the system refuses a thread; those that run are ended
  /// then.
  ServiceThreads(std::size_t count, std::function<void()> work, std::function<void()> ask_to_end);
  ~ServiceThreads() { end(); }
  ServiceThreads(const ServiceThreads&) = delete;
  ServiceThreads& operator=(const ServiceThreads&) = delete;

  /// Waits until all have ended.
  void end();

 private:
  const std::function<void()> ask_to_end_;
  std::vector<std::thread> threads_;
};

/// Work that is done by some threads in the order in which it came.
class WorkQueue {
 public:
  /// Throws Error as ServiceThreads does.
  explicit WorkQueue(std::size_t threads);

  /// An exception that leaves `work` is logged.
  void post(std::function<void()> work);
  /// Drops what has not begun, and waits for the rest.
  void end() { threads_.end(); }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  ServiceThreads threads_;  // last: they use the rest
};

}  // namespace moh
