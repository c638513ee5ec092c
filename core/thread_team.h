#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/function_ref.h"

namespace moh {

/// The threads that run the parallel loops of one thread of the program with it. Unlike a team of OpenMP's
/// they need not all arrive: a loop ends when those that took part have finished, and one that the operating
/// system has not let run until then is left out. So a loop waits for other programs only where these
/// interrupt work that has begun. Waiting threads spin for a moment, then sleep.
class ThreadTeam {
 public:
  ThreadTeam();
  /// Ends the threads, and waits for that.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Calls work(0) in the calling thread and work(i) in thread i of the team, 0 < i < threads, at once;
  /// returns when all that began have returned. A thread that has not begun when work(0) returns does not
  /// begin. `work` must not throw, and must not call `run`. Missing threads are started; throws
  /// ThreadError where the system refuses one.
  void run(int threads, FunctionRef<void(int)> work);

 private:
  enum class State : std::uint32_t;
  struct Worker;

  void start_missing(std::size_t workers);
  void work_when_asked(Worker& worker, int index);
  static void wait_for_offer(Worker& worker);
  static void withdraw_or_await(Worker& worker);

  const FunctionRef<void(int)>* work_ = nullptr;  // of the run that is going on
  std::vector<std::unique_ptr<Worker>> workers_;  // thread i of the team is worker i - 1
};

}  // namespace moh
