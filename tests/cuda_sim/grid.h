#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "tests/cuda_sim/fiber.h"
#include "tests/cuda_sim/late_copies.h"

namespace moh::sim {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  std::size_t count() const { return std::size_t{x} * y * z; }
};

/// The order in which threads that can run are run.
enum class ThreadOrder {
  kInTurn,     ///< the one that has waited longest; one block at a time
  kRandom,     ///< any; several blocks at a time
  kWarpAhead,  ///< one that was woken last: a warp runs as far as it can before the others start; several
               ///< blocks
};

/// The choices that a device leaves open, of which a test therefore tries several.
struct Freedom {
  bool late_copies =
      false;  ///< asynchronous copies happen when they are waited for, not when they are issued
  ThreadOrder order = ThreadOrder::kInTurn;
  std::uint64_t seed = 1;  ///< not 0
};

/// The ways in which tests run each kernel.
struct Way {
  const char* name;
  Freedom freedom;
};
inline constexpr std::array kWays = {
    Way{"early copies, threads in turn", {false, ThreadOrder::kInTurn}},
    Way{"early copies, threads in random order", {false, ThreadOrder::kRandom}},
    Way{"late copies, threads in random order", {true, ThreadOrder::kRandom}},
    Way{"late copies, a warp ahead of the others", {true, ThreadOrder::kWarpAhead}},
};

/// Sets the freedom of the launches of its lifetime.
class FreedomScope {
 public:
  explicit FreedomScope(const Freedom& freedom);
  ~FreedomScope();
  FreedomScope(const FreedomScope&) = delete;
  FreedomScope& operator=(const FreedomScope&) = delete;

 private:
  Freedom previous_;
};

/// A fault of a kernel, to which a device would answer with a hang, a fault or garbage.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Block;

/// A thread of a block, and where it waits. A switch touches its first line of the cache alone.
struct alignas(64) Thread {
  Fiber fiber;  ///< from its beginning to its end
  Block* block = nullptr;
  unsigned number = 0;  ///< x first, then y, then z
  Dim3 index;
  const char* waits_at = nullptr;  ///< "sync_block", or null while it may run
  std::source_location where;
  bool done = false;
  LateCopies copies;

  unsigned lane() const { return number % 32; }
  unsigned warp() const { return number / 32; }
};

/// A block of threads with its shared memory, which begins as NaN.
class Block {
 public:
  Block(Dim3 index, Dim3 threads, std::size_t shared_bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const Dim3 index, dims;
  std::byte* shared() { return shared_; }
  std::size_t shared_bytes() const { return shared_bytes_; }
  std::vector<Thread>& threads() { return threads_; }
  bool done() const { return running_ == 0; }
  void thread_ended() { --running_; }

  /// Waits until all lanes of the calling thread's warp are at the same place; the last of them calls
  /// complete(operands), one operand per lane.
  using Operands = std::array<void*, 32>;
  void meet_in_warp(const char* what, void* operand, const std::source_location& where,
                    FunctionRef<void(Operands&)> complete);
  /// Waits until `count` threads are at barrier `id`. Barrier 0 is the whole block's, who all must wait at
  /// the same place.
  void meet_at_barrier(const char* what, int id, unsigned count, const std::source_location& where);
  /// Faults when the kernel wrote past its shared memory.
  void check_shared() const;

 private:
  struct WarpMeeting {
    unsigned arrived = 0;
    const char* what = nullptr;
    std::source_location where;
    Operands operands;
    std::array<Thread*, 32> waiting;  // the first `arrived`, in this order
  };
  struct Barrier {
    std::source_location where;
    std::vector<Thread*> waiting;
  };
  [[noreturn]] [[gnu::cold]] static void refuse_other_places(const WarpMeeting& meeting, const char* what,
                                                             const std::source_location& where);

  static constexpr std::size_t kGuardBytes = 128;

  std::byte* shared_;
  std::size_t shared_bytes_;
  std::vector<Thread> threads_;
  std::size_t running_;
  std::vector<WarpMeeting> warps_;
  std::array<Barrier, 16> barriers_;
};

/// Whether kernels and products are computed, or, with MOH_SIM_COMPUTES=0, launched alone: numbers are NaN
/// then, while launches and their bytes can be counted at the size of real models. Nothing but a benchmark
/// runs that way.
bool computes();

/// Runs a kernel over a grid. Throws KernelFault.
void run_grid(const char* kernel_name, Dim3 grid, Dim3 threads, std::size_t shared_bytes,
              FunctionRef<void()> kernel);

/// The launch in progress, as kernels see it.
struct CurrentLaunch {
  Thread* thread = nullptr;  ///< that runs now
  Dim3 grid;
  Freedom freedom;  ///< of the next launch, when there is none
};
inline CurrentLaunch current_launch;

/// The thread that runs now, and its grid's size and freedom. Only inside a kernel.
inline Thread& this_thread() {
  return *current_launch.thread;
}
inline Dim3 grid_dims() {
  return current_launch.grid;
}
inline const Freedom& freedom() {
  return current_launch.freedom;
}

/// Lets other threads run; for loops that wait for another block.
void spin(const std::source_location& where);
/// Says that waiting threads may have something new to see.
void note_progress();
/// Ends the launch with KernelFault from inside a kernel.
[[noreturn]] void fault(const std::string& what, const std::source_location& where);

}  // namespace moh::sim
