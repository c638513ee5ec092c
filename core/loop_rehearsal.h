#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/function_ref.h"

namespace moh {

/// Shows how evenly work would be divided among more threads than the machine has cores. Inside the scope,
/// num_threads() is `threads`, so loops are cut for that many; but the thread that opened it runs their
/// chunks alone, one after the other, and measures each. Must not be nested.
class LoopRehearsal {
 public:
  /// Receives the processor time of a loop's chunks, in seconds.
  using Observe = std::function<void(std::span<const double>)>;

  /// `observe` is called after each loop of two chunks or more.
  LoopRehearsal(int threads, Observe observe);
  ~LoopRehearsal();
  LoopRehearsal(const LoopRehearsal&) = delete;
  LoopRehearsal& operator=(const LoopRehearsal&) = delete;

  int threads() const { return threads_; }

  /// The rehearsal of this thread, or null.
  static LoopRehearsal* current() { return current_; }
  /// Runs the chunks of a loop; called by parallel_for, not inside another loop.
  void run(std::int64_t chunks, FunctionRef<void(std::int64_t)> chunk);
  /// Whether a chunk is running.
  bool inside_loop() const { return inside_loop_; }

 private:
  inline static thread_local constinit LoopRehearsal* current_ = nullptr;
  int threads_;
  Observe observe_;
  bool inside_loop_ = false;
  std::vector<double> seconds_;  // of the chunks of the loop under way
};

/// Processor time of the calling thread, in seconds: what else a machine does is not in it.
double thread_seconds();

/// Seconds after which the last of `threads` threads has finished a loop whose chunks take `seconds`: each
/// takes a chunk when it has finished the one before, in the order of core/loop_shares.h. Not counted: waking
/// threads and waiting for them, and what they take from one another (memory bandwidth, shared caches, clock
/// rate).
double busiest_thread(std::span<const double> seconds, int threads);

}  // namespace moh
