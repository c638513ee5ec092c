#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <vector>

#include "core/device_clock.h"
#include "core/function_ref.h"

namespace moh::cuda {

/// The share of a multiprocessor that a kernel takes. Zeros: not known, as of a library's kernels and of
/// simulated ones.
struct KernelResources {
  int threads = 0;                ///< of a block
  std::int64_t shared_bytes = 0;  ///< of a block, static and dynamic
  int registers = 0;              ///< of a thread
  std::int64_t local_bytes = 0;   ///< of a thread: spilled registers, and arrays that are in none
  int resident_blocks = 0;        ///< of a multiprocessor at once
};

/// A kernel's launch, or a call of a library that launches kernels.
struct TimedLaunch {
  const char* name = nullptr;
  std::size_t context = 0;  ///< what the timer's function returned
  double seconds = 0;
  /// Bytes of the memory blocks that the arguments point to, each once: what the kernel moves if it reads or
  /// writes each of its tensors once, and all of it. 0: not known.
  std::int64_t bytes = 0;
  KernelResources resources;
};

/// Times the kernels that its thread launches during its lifetime, by an event before and one after each. A
/// kernel that waits for the host has the host's time: where launches follow one another without a pause,
/// times are the device's. Must not be nested; not for captured work.
class LaunchTimer {
 public:
  /// `context` is called at each launch. Blocks of memory are known from track_blocks()
  /// (core/cuda/memory_blocks.h) on.
  LaunchTimer(DeviceClock& clock, std::function<std::size_t()> context);
  ~LaunchTimer();
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;

  /// The timer of this thread, or null.
  static LaunchTimer* current() { return current_; }

  /// A launch begins; `name` is a literal. Its arguments follow, then end(), unless the launch has failed.
  void begin(const char* name, const KernelResources& resources = {});
  /// An argument as the launch copies it, `bytes` long: addresses in it are what it points to.
  void add_argument(const void* argument, std::size_t bytes);
  void end();

  /// The launches that have ended, in their order; blocks until the device has finished.
  std::vector<TimedLaunch> launches() const;

 private:
  struct Span {
    TimedLaunch launch;
    DeviceClock::Mark begin = 0, end = 0;
    bool ended = false;
  };

  inline static thread_local constinit LaunchTimer* current_ = nullptr;
  DeviceClock& clock_;
  std::function<std::size_t()> context_;
  std::vector<Span> spans_;
  std::set<const void*> blocks_;  // of the launch that has begun
};

/// Calls `call`, which launches kernels of a library or copies memory, with the addresses that it reads and
/// writes; timed under `name`, a literal, where there is a timer.
void timed_call(const char* name, std::initializer_list<const void*> addresses, FunctionRef<void()> call);

}  // namespace moh::cuda
