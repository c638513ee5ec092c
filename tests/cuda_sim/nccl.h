#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda_sim/nccl_segment.h"

namespace moh::sim {

/// Settings of the simulated NCCL for tests, in this process.
struct Nccl {
  static Nccl& instance();

  /// The error that ncclCommGetAsyncError reports from now on, as if a connection had broken.
  std::atomic<ncclResult_t> background_error = ncclSuccess;
  /// Whether calls stay in progress from now on, as a launch does whose connections are not made.
  std::atomic<bool> stays_in_progress = false;
  std::atomic<int> aborts = 0;  ///< calls of ncclCommAbort that have begun
  int version = 22809;
};

/// Device memory of a collective.
struct NcclRange {
  const void* address;
  std::size_t bytes;
};

}  // namespace moh::sim

/// A communicator. It is never freed, so that a use after its end is found.
struct ncclComm {
  moh::sim::NcclSegment* segment = nullptr;
  std::string name;
  int rank = 0, size = 0;
  std::uint64_t calls = 0, meetings = 0;
  std::atomic<bool> joined = false, finalized = false, destroyed = false, aborted = false;
  std::atomic<bool> in_progress = false;  ///< a call that has to be polled for

  /// A collective that is captured is counted, and its memory registered, until the last graph with it is
  /// gone, and NCCL has noticed: that is in its next call, or while it waits for it at the end.
  void begin_captured(std::span<const moh::sim::NcclRange> memory);
  void end_captured(std::span<const moh::sim::NcclRange> memory);
  /// Notices what is gone; whether no captured collective is left.
  bool reclaim();

  /// Waits until all ranks have come here; false when aborted.
  bool meet();
  /// Waits until `reached`, or an abort: then false.
  template <class Condition>
  bool wait_until(const Condition& reached) const;
  /// Throws KernelFault, where NCCL would hang, unless all ranks call the same; false when aborted.
  bool agree(const moh::sim::NcclSegment::Call& call);

 private:
  std::mutex mutex_;
  int captured_ = 0;                                    // collectives in graphs, and those to be reclaimed
  std::vector<std::vector<moh::sim::NcclRange>> gone_;  // of each collective whose graphs are gone
};

namespace moh::sim {

enum class NcclKind : std::int32_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };

/// A collective with all that it is made of.
struct NcclCollective {
  NcclKind kind;
  const void* from;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;

  std::size_t item() const;
  /// Memory that is read, and memory that is written.
  std::vector<NcclRange> memory(const ncclComm& comm) const;
  /// Throws where the real library would read or write elsewhere.
  void require_memory(const ncclComm& comm) const;
  /// Takes part in it, as work of the device: returns when it has ended or is aborted. Sums are made in the
  /// order of the ranks; those of bfloat16 are rounded after each addition.
  void run(ncclComm& comm) const;
};

/// One of the sends and receives of a group.
struct NcclMessage {
  bool is_send;
  std::byte* memory;
  std::size_t bytes;
  int peer;
};
/// Sends and receives all of them together, as work of the device.
void run_messages(ncclComm& comm, const std::vector<NcclMessage>& messages);

}  // namespace moh::sim

template <class Condition>
bool ncclComm::wait_until(const Condition& reached) const {
  for (;;) {
    const std::uint32_t seen = segment->changes;
    if (reached()) return !aborted;
    if (aborted) return false;
    segment->wait_for_change(seen);
  }
}
