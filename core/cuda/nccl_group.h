#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"
#include "core/reduce_op.h"

namespace moh::cuda {

/// By which the processes of a communicator find each other.
using NcclId = std::array<char, 128>;

/// For one process, which gives it to the others. Throws as NcclGroup().
NcclId make_nccl_id();
/// "2.28.9", of the library that is loaded.
std::string nccl_version();
/// "2.28.9" of 22809.
std::string nccl_version_text(int code);

/// Limits NCCL to algorithms whose reruns give the same bits, unless the environment names some (NCCL_ALGO):
/// rings and trees, and not the sums of NVLink's switches. Which of them sums a message, and with which
/// protocol, NCCL derives from its size, the number of processes and what connects them; along a ring or a
/// tree the order is fixed. NCCL promises no order beyond that: other machines may sum in another one.
void pin_nccl_algorithms();
/// The value of NCCL_ALGO.
std::string nccl_algorithms();

/// A communicator of NCCL, of `size` processes with a GPU each, which call the same collectives with the same
/// counts and types, in the same order: NCCL does not check, and hangs. A collective is enqueued to the
/// communication queue (core/cuda/queue.h) and can be part of a capture; memory that it touches has to stay
/// until the compute queue has waited for that queue. All members but those that say otherwise are called by
/// one thread.
///
/// Captured collectives are NCCL's as long as there is a graph with them: leave(), and the end of an abort,
/// wait until all are destroyed. Their memory is persistent (require_persistent()), and stays until then, as
/// NCCL has it registered, and other processes have it mapped.
///
/// All functions throw DeviceError for errors of NCCL, also for those met in the background since.
class NcclGroup {
 public:
  /// Begins to join the others, and returns at once. The open device is that of the process. Throws
  /// ConfigError where NCCL cannot be loaded, or is too old.
  NcclGroup(const NcclId& id, int rank, int size);
  /// Aborts, unless leave() was called, and waits for NCCL's end a few seconds.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Whether all have joined. Before that there are no collectives.
  bool joined();

  /// In place. float32, bfloat16, float64, int64.
  void all_reduce(void* values, std::int64_t count, DType dtype, ReduceOp op);
  /// Row rank() of the reduced rows, of `count` elements each, goes to `part`, which may be that row itself.
  void reduce_scatter(const void* rows, void* part, std::int64_t count, DType dtype, ReduceOp op);
  /// Row r of `rows` becomes the `bytes` at `part` of process r; `part` may be row rank().
  void all_gather(const void* part, void* rows, std::int64_t bytes);
  void broadcast(void* values, std::int64_t bytes, int root);
  /// Row r of `from` goes to process r, where it becomes row rank() of `to`. `bytes` of a row.
  void exchange(const void* from, void* to, std::int64_t bytes);

  /// Throws for an error that NCCL has met in the background. From any thread.
  void check();
  /// Ends what is under way on the device, in this process alone, and refuses collectives from now on.
  /// Returns at once: NCCL goes on in a thread until it has let go of the device and of captured collectives.
  /// From any thread.
  void abort() noexcept;
  /// Waits for NCCL's end after abort(), at most `seconds`; false if that was not enough, and then it is
  /// waited for no more.
  bool wait_for_abort(double seconds) noexcept;
  /// Waits until all have enqueued and finished the same collectives and no captured ones are left, at most
  /// `seconds`, and leaves. False if that was not enough: then it aborts.
  bool leave(double seconds);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // also of a thread that NCCL does not let go
};

}  // namespace moh::cuda
