#include "tests/cuda_sim/nccl.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "core/cuda/nccl_group.h"
#include "core/cuda/nccl_library.h"
#include "tests/cuda_sim/capture.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"

// An NCCL of processes on one machine. It is strict where the real one hangs, reads freed memory, or leaves
// it to luck: another collective, count, type or root than the others', calls before all have joined, before
// the last one was polled for, or after the end of the communicator. A communicator neither leaves nor ends
// while there are graphs with its collectives, whose memory it has registered.

using moh::sim::Capture;
using moh::sim::KernelFault;
using moh::sim::Nccl;
using moh::sim::NcclCollective;
using moh::sim::NcclKind;
using moh::sim::NcclMessage;
using moh::sim::NcclRange;
using moh::sim::NcclSegment;
using moh::sim::Work;

namespace {

struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<NcclMessage> messages;
};
thread_local Group group;

/// Whether all ranks have joined; a GPU that two of them have is refused, as NCCL does.
ncclResult_t joining(ncclComm& comm) {
  for (int r = 0; r < comm.size; ++r) {
    const NcclSegment::Rank& other = comm.segment->ranks[r];
    if (other.joined.load(std::memory_order_acquire) == 0) return ncclInProgress;
    if (r != comm.rank && std::strcmp(other.gpu, comm.segment->ranks[comm.rank].gpu) == 0)
      return ncclInvalidUsage;
  }
  // All have it mapped.
  if (comm.rank == 0 && !comm.joined) ::shm_unlink(comm.name.c_str());
  comm.joined = true;
  return ncclSuccess;
}

ncclResult_t leaving(const ncclComm& comm) {
  for (int r = 0; r < comm.size; ++r) {
    if (comm.segment->ranks[r].finalized.load(std::memory_order_acquire) == 0) return ncclInProgress;
  }
  return ncclSuccess;
}

void require_alive(const ncclComm* comm, const char* call) {
  const auto refuse = [&](const char* why) { throw KernelFault(std::string(call) + ": " + why); };
  if (comm == nullptr) refuse("no communicator");
  if (comm->aborted) refuse("use after ncclCommAbort");
  if (comm->destroyed) refuse("use after ncclCommDestroy");
}

/// A collective in the graphs that share this object. In a communicator of one NCCL enqueues a copy instead.
class Captured {
 public:
  Captured(ncclComm& comm, std::vector<NcclRange> memory) : comm_(comm), memory_(std::move(memory)) {
    comm_.begin_captured(memory_);
  }
  ~Captured() { comm_.end_captured(memory_); }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

 private:
  ncclComm& comm_;
  std::vector<NcclRange> memory_;
};

void submit(ncclComm& comm, cudaStream_t stream, const std::vector<NcclRange>& memory, const Work& work) {
  comm.reclaim();
  comm.in_progress = true;
  if (comm.size == 1 || Capture::of(stream) == nullptr)
    return moh::sim::Streams::instance().submit(stream, work);
  const auto captured = std::make_shared<Captured>(comm, memory);
  moh::sim::Streams::instance().submit(stream, [work, captured] { work(); });
}

/// Before a collective.
void require_ready(const ncclComm* comm, const char* call) {
  require_alive(comm, call);
  const auto refuse = [&](const char* why) { throw KernelFault(std::string(call) + ": " + why); };
  if (!comm->joined) refuse("before all ranks have joined, which ncclCommGetAsyncError tells");
  if (comm->finalized) refuse("use after ncclCommFinalize");
  if (comm->in_progress) refuse("the last call is in progress, until ncclCommGetAsyncError tells otherwise");
}

ncclResult_t enqueue(const char* name, const NcclCollective& collective, ncclComm_t comm,
                     cudaStream_t stream) {
  require_ready(comm, name);
  if (group.depth > 0) throw KernelFault(std::string(name) + ": the simulator groups messages only");
  if (collective.root < 0 || collective.root >= comm->size) return ncclInvalidArgument;
  collective.require_memory(*comm);
  submit(*comm, stream, collective.memory(*comm), [=] { collective.run(*comm); });
  return ncclInProgress;
}

ncclResult_t add_message(const char* name, const NcclMessage& message, ncclComm_t comm, cudaStream_t stream) {
  require_ready(comm, name);
  if (group.depth == 0) throw KernelFault(std::string(name) + ": outside of a group it may hang");
  if (message.peer < 0 || message.peer >= comm->size) return ncclInvalidArgument;
  if (group.comm != nullptr && (group.comm != comm || group.stream != stream))
    throw KernelFault(std::string(name) + ": the simulator has a group in one communicator and stream");
  moh::sim::DeviceMemory::instance().require(message.memory, message.bytes, name);
  group.comm = comm;
  group.stream = stream;
  group.messages.push_back(message);
  return ncclSuccess;
}

std::size_t bytes_of(std::size_t count, ncclDataType_t type) {
  return count * NcclCollective{NcclKind::kBroadcast, nullptr, nullptr, count, type}.item();
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = Nccl::instance().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  const std::string name = "/moh_sim_nccl." + std::to_string(::getpid()) + "." + std::to_string(random());
  std::memset(id->internal, 0, sizeof id->internal);
  name.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "another error";
  }
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) throw KernelFault("ncclCommInitRankConfig: blocks without a limit");
  if (ranks < 1 || ranks > NcclSegment::kMostRanks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto* const made = new ncclComm;
  made->name = id.internal;
  made->segment = &NcclSegment::open(made->name);
  made->rank = rank;
  made->size = ranks;
  NcclSegment::Rank& own = made->segment->ranks[rank];
  int device = 0;
  cudaGetDevice(&device);
  cudaDeviceGetPCIBusId(own.gpu, sizeof own.gpu, device);
  own.joined.store(1, std::memory_order_release);
  *comm = made;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  require_alive(comm, "ncclCommGetAsyncError");
  *error = Nccl::instance().background_error;
  if (*error != ncclSuccess) return ncclSuccess;
  if (!comm->joined) {
    *error = joining(*comm);
  } else if (comm->finalized) {
    *error = comm->reclaim() ? leaving(*comm) : ncclInProgress;
  } else if (comm->in_progress && Nccl::instance().stays_in_progress) {
    *error = ncclInProgress;
    return ncclSuccess;
  }
  comm->in_progress = false;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  require_ready(comm, "ncclCommFinalize");
  moh::sim::Streams::instance().synchronize();
  comm->finalized = true;
  comm->segment->ranks[comm->rank].finalized.store(1, std::memory_order_release);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  require_alive(comm, "ncclCommDestroy");
  if (!comm->finalized) throw KernelFault("ncclCommDestroy: may block without ncclCommFinalize");
  comm->destroyed = true;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  require_alive(comm, "ncclCommAbort");
  if (!comm->joined) ::shm_unlink(comm->name.c_str());
  comm->aborted = true;  // from now on the device lets go
  ++Nccl::instance().aborts;
  while (!comm->reclaim()) ::usleep(20);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclAllReduce", {NcclKind::kAllReduce, from, to, count, type, op}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduceScatter", {NcclKind::kReduceScatter, from, to, count, type, op}, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclAllGather", {NcclKind::kAllGather, from, to, count, type}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclBroadcast", {NcclKind::kBroadcast, from, to, count, type, ncclSum, root}, comm, stream);
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  auto* const memory = static_cast<std::byte*>(const_cast<void*>(from));
  return add_message("ncclSend", {true, memory, bytes_of(count, type), peer}, comm, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_message("ncclRecv", {false, static_cast<std::byte*>(to), bytes_of(count, type), peer}, comm,
                     stream);
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) throw KernelFault("ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, {});
  if (ended.comm == nullptr) return ncclSuccess;
  std::vector<NcclRange> memory;
  for (const NcclMessage& message : ended.messages) memory.push_back({message.memory, message.bytes});
  submit(*ended.comm, ended.stream, memory, [comm = ended.comm, messages = ended.messages] {
    if (!comm->aborted) moh::sim::run_messages(*comm, messages);
  });
  return ncclInProgress;
}

Nccl& Nccl::instance() {
  static auto* state = new Nccl;
  return *state;
}

namespace moh::cuda {

const NcclLibrary& NcclLibrary::get() {
  pin_nccl_algorithms();
#define MOH_NAME(name) &::name,
  static const NcclLibrary functions{MOH_NCCL_FUNCTIONS(MOH_NAME)};
#undef MOH_NAME
  return functions;
}

}  // namespace moh::cuda
