#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"

namespace moh {

/// The system refused a thread: a limit on processes (`ulimit -u`, a container's), or on address space
/// (`ulimit -v`), of which each thread takes some megabytes.
class ThreadError : public Error {
  using Error::Error;
};

/// The purpose of threads, as the user knows it.
struct ThreadUse {
  std::string_view where;     ///< a key, an option or a part of the program: "data.workers"
  std::string_view fix = "";  ///< how to need fewer: "set data.workers to fewer"
};

/// Throws the ThreadError of a thread that the system refused for `reason`, number `started` (from 0) of
/// `wanted`.
[[noreturn]] void refuse_thread(const ThreadUse& use, std::size_t wanted, std::size_t started,
                                const std::system_error& reason);

/// Starts a thread that runs `body`, number `started` of `wanted`. Every thread of the program is started
/// here, or by start_async() or a ThreadGroup. An exception that leaves `body` ends the program with its
/// message and exit code 1, so whoever can do better catches it there. Throws ThreadError.
std::thread start_thread(const ThreadUse& use, std::function<void()> body, std::size_t wanted = 1,
                         std::size_t started = 0);

/// Starts a thread that runs `work`; the future has its result, or its exception, and waits for the thread
/// when it is destroyed. Throws ThreadError.
template <class Work>
auto start_async(const ThreadUse& use, Work work) {
  try {
    return std::async(std::launch::async, std::move(work));
  } catch (const std::system_error& reason) {
    refuse_thread(use, 1, 0, reason);
  }
}

/// Detaches a thread that may never end, as it is inside a library that waits for something.
void leave_behind(std::thread thread) noexcept;
/// The last call of main(): returns the exit code. Where a thread was left behind, ends the process with it
/// instead, without the work of exit(), which destroys what libraries use.
int end_process(int code);

/// start_async() for work that matters more than its thread: if the system refuses one, calls `warn` with the
/// reason, and the work is done by whoever waits for the future.
template <class Work>
auto start_async_or_defer(const ThreadUse& use, Work work,
                          const std::function<void(const std::string&)>& warn) {
  try {
    return start_async(use, work);
  } catch (const ThreadError& refused) {
    warn(refused.what());
    return std::async(std::launch::deferred, std::move(work));
  }
}

/// Threads that are told to end, and joined, with this object. As the last member of its owner it is
/// destroyed before what the threads use, also when the owner's constructor throws.
class ThreadGroup {
 public:
  /// `stop` is called once before the threads are joined, if any was started, and makes them return.
  explicit ThreadGroup(std::function<void()> stop) : stop_(std::move(stop)) {}
  ~ThreadGroup() { join(); }
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// Starts `count` more threads, which run `body` each. Throws ThreadError; those that were started then run
  /// on until the group is joined.
  void start(const ThreadUse& use, std::size_t count, const std::function<void()>& body);
  /// Stops and joins all.
  void join();

  bool empty() const { return threads_.empty(); }

 private:
  std::function<void()> stop_;
  std::vector<std::thread> threads_;
};

}  // namespace moh
