#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <system_error>
#include <utility>

#include "core/dtype.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/nccl.h"
#include "tests/cuda_sim/registered_memory.h"

// The device's side of the simulated NCCL: the ranks are processes, which pass pieces through shared memory.

namespace moh::sim {

namespace {

constexpr const char* kKinds[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};

std::size_t item_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
  }
  throw KernelFault("nccl: a type that the simulator does not know");
}

std::string text_of(const NcclSegment::Call& call) {
  return std::string(kKinds[call.kind]) + " number " + std::to_string(call.number) + " of " +
         std::to_string(call.count) + " elements of type " + std::to_string(call.type) + ", operation " +
         std::to_string(call.op) + ", root " + std::to_string(call.root);
}

template <class T>
void reduce_as(const ncclComm& comm, ncclRedOp_t op, std::byte* to, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
    T result;
    std::memcpy(&result, comm.segment->ranks[0].slot + at, sizeof result);
    for (int r = 1; r < comm.size; ++r) {
      T other;
      std::memcpy(&other, comm.segment->ranks[r].slot + at, sizeof other);
      result = op == ncclMax ? std::max(result, other) : static_cast<T>(result + other);
    }
    std::memcpy(to + at, &result, sizeof result);
  }
}

/// The reduction of what lies in the slots of all ranks.
void reduce_slots(const ncclComm& comm, const NcclCollective& c, std::byte* to, std::size_t bytes) {
  const DeviceMemory::Access access;
  if (c.type == ncclFloat32) return reduce_as<float>(comm, c.op, to, bytes);
  if (c.type == ncclBfloat16) return reduce_as<bfloat16>(comm, c.op, to, bytes);
  if (c.type == ncclFloat64) return reduce_as<double>(comm, c.op, to, bytes);
  if (c.type == ncclInt64) return reduce_as<std::int64_t>(comm, c.op, to, bytes);
  throw KernelFault("nccl: a reduction of bytes");
}

void copy_on_device(void* to, const void* from, std::size_t bytes) {
  const DeviceMemory::Access access;
  std::memcpy(to, from, bytes);
}

/// Calls piece(begin, bytes) for each part of `bytes` that a slot holds, between two meetings, the first of
/// which ends publish(begin, bytes); false when aborted.
template <class Publish, class Use>
bool in_pieces(ncclComm& comm, std::size_t bytes, const Publish& publish, const Use& use) {
  for (std::size_t begin = 0; begin < bytes; begin += NcclSegment::kSlot) {
    const std::size_t piece = std::min(NcclSegment::kSlot, bytes - begin);
    publish(begin, piece);
    if (!comm.meet()) return false;
    use(begin, piece);
    if (!comm.meet()) return false;
  }
  return true;
}

}  // namespace

NcclSegment& NcclSegment::open(const std::string& name) {
  const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(NcclSegment)) != 0)
    throw std::system_error(errno, std::generic_category(), "simulated NCCL: " + name);
  void* const memory = ::mmap(nullptr, sizeof(NcclSegment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "simulated NCCL");
  return *static_cast<NcclSegment*>(memory);
}

void NcclSegment::note_change() {
  ++changes;
  if (waiting > 0) ::syscall(SYS_futex, &changes, FUTEX_WAKE, std::numeric_limits<int>::max());
}

void NcclSegment::wait_for_change(std::uint32_t seen) {
  const timespec limit{.tv_sec = 0, .tv_nsec = 2'000'000};
  ++waiting;
  ::syscall(SYS_futex, &changes, FUTEX_WAIT, seen, &limit);
  --waiting;
}

std::size_t NcclCollective::item() const {
  return item_of(type);
}

std::vector<NcclRange> NcclCollective::memory(const ncclComm& comm) const {
  const auto ranks = static_cast<std::size_t>(comm.size);
  const std::size_t bytes = count * item();
  return {{from, kind == NcclKind::kReduceScatter ? bytes * ranks : bytes},
          {to, kind == NcclKind::kAllGather ? bytes * ranks : bytes}};
}

void NcclCollective::require_memory(const ncclComm& comm) const {
  const std::vector<NcclRange> ranges = memory(comm);
  for (const NcclRange& range : ranges)
    DeviceMemory::instance().require(range.address, range.bytes, kKinds[static_cast<int>(kind)]);
  const std::size_t in = ranges[0].bytes, out = ranges[1].bytes, bytes = count * item();
  const auto* const a = static_cast<const std::byte*>(from);
  const auto* const b = static_cast<const std::byte*>(to);
  const std::size_t own = bytes * static_cast<std::size_t>(comm.rank);
  const bool in_place = (kind == NcclKind::kReduceScatter && b == a + own) ||
                        (kind == NcclKind::kAllGather && a == b + own) || (in == out && a == b);
  if (!in_place && a < b + out && b < a + in)
    throw KernelFault(std::string(kKinds[static_cast<int>(kind)]) +
                      ": operands that overlap, but not in place");
}

void NcclCollective::run(ncclComm& comm) const {
  const NcclSegment::Call call{++comm.calls, count, static_cast<std::int32_t>(kind), type, op, root};
  if (comm.aborted || !comm.agree(call)) return;
  NcclSegment::Rank& own = comm.segment->ranks[comm.rank];
  const auto* const in = static_cast<const std::byte*>(from);
  auto* const out = static_cast<std::byte*>(to);
  const std::size_t bytes = count * item();
  const auto publish = [&](std::size_t begin, std::size_t piece) {
    copy_on_device(own.slot, in + begin, piece);
  };
  if (kind == NcclKind::kAllReduce) {
    in_pieces(comm, bytes, publish,
              [&](std::size_t begin, std::size_t piece) { reduce_slots(comm, *this, out + begin, piece); });
  } else if (kind == NcclKind::kBroadcast) {
    in_pieces(comm, bytes, publish, [&](std::size_t begin, std::size_t piece) {
      copy_on_device(out + begin, comm.segment->ranks[root].slot, piece);
    });
  } else if (kind == NcclKind::kAllGather) {
    in_pieces(comm, bytes, publish, [&](std::size_t begin, std::size_t piece) {
      for (int r = 0; r < comm.size; ++r)
        copy_on_device(out + bytes * static_cast<std::size_t>(r) + begin, comm.segment->ranks[r].slot, piece);
    });
  } else {
    for (int r = 0; r < comm.size; ++r) {
      const std::byte* const row = in + bytes * static_cast<std::size_t>(r);
      const bool goes_on = in_pieces(
          comm, bytes,
          [&](std::size_t begin, std::size_t piece) { copy_on_device(own.slot, row + begin, piece); },
          [&](std::size_t begin, std::size_t piece) {
            if (r == comm.rank) reduce_slots(comm, *this, out + begin, piece);
          });
      if (!goes_on) return;
    }
  }
}

namespace {

/// A message that is under way.
struct Transfer {
  const NcclMessage& message;
  NcclSegment& segment;
  NcclSegment::Box& box;
  std::size_t done = 0;
  bool begun = false;

  bool complete() const { return begun && done == message.bytes; }
  /// Passes on the next piece, if the box lets it. Throws KernelFault for a message of another size.
  void advance();
};

void Transfer::advance() {
  if (box.is_full.load(std::memory_order_acquire) == (message.is_send ? 1U : 0U)) return;
  if (!message.is_send && box.total != message.bytes) {
    throw KernelFault("nccl: rank " + std::to_string(message.peer) + " sends " + std::to_string(box.total) +
                      " bytes where " + std::to_string(message.bytes) + " are received");
  }
  const std::size_t piece = std::min(NcclSegment::kBox, message.bytes - done);
  if (message.is_send) {
    box.total = message.bytes;
    copy_on_device(box.bytes, message.memory + done, piece);
  } else {
    copy_on_device(message.memory + done, box.bytes, piece);
  }
  begun = true;
  done += piece;
  box.is_full.store(message.is_send ? 1U : 0U, std::memory_order_release);
  segment.note_change();
}

}  // namespace

void run_messages(ncclComm& comm, const std::vector<NcclMessage>& messages) {
  std::vector<Transfer> transfers;
  for (const NcclMessage& message : messages) {
    const int from = message.is_send ? comm.rank : message.peer,
              to = message.is_send ? message.peer : comm.rank;
    transfers.push_back({message, *comm.segment, comm.segment->boxes[from][to]});
  }
  comm.wait_until([&] {
    bool all = true;
    for (Transfer& transfer : transfers) {
      if (!transfer.complete()) transfer.advance();
      all = all && transfer.complete();
    }
    return all;
  });
}

}  // namespace moh::sim

void ncclComm::begin_captured(std::span<const moh::sim::NcclRange> memory) {
  const std::lock_guard lock(mutex_);
  ++captured_;
  for (const auto& range : memory) moh::sim::RegisteredMemory::instance().add(range.address, range.bytes);
}

void ncclComm::end_captured(std::span<const moh::sim::NcclRange> memory) {
  const std::lock_guard lock(mutex_);
  gone_.emplace_back(memory.begin(), memory.end());
}

bool ncclComm::reclaim() {
  const std::lock_guard lock(mutex_);
  for (const auto& memory : std::exchange(gone_, {})) {
    --captured_;
    for (const auto& range : memory)
      moh::sim::RegisteredMemory::instance().remove(range.address, range.bytes);
  }
  return captured_ == 0;
}

bool ncclComm::meet() {
  const std::uint64_t number = ++meetings;
  segment->ranks[rank].step.store(number, std::memory_order_release);
  segment->note_change();
  return wait_until([&] {
    return std::all_of(segment->ranks, segment->ranks + size, [&](const auto& other) {
      return other.step.load(std::memory_order_acquire) >= number;
    });
  });
}

bool ncclComm::agree(const moh::sim::NcclSegment::Call& call) {
  segment->ranks[rank].call = call;
  if (!meet()) return false;
  for (int r = 0; r < size; ++r) {
    const moh::sim::NcclSegment::Call other = segment->ranks[r].call;
    if (other == call) continue;
    throw moh::sim::KernelFault("nccl: rank " + std::to_string(rank) + " calls " + moh::sim::text_of(call) +
                                ", rank " + std::to_string(r) + " calls " + moh::sim::text_of(other) +
                                ": NCCL would hang");
  }
  return meet();
}
