#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_sim/capture.h"
#include "tests/cuda_sim/clock.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/lost_wait.h"
#include "tests/cuda_sim/stream.h"

// The functions are those of CUDA's documentation. What is wrong on a device, as a copy from a host address
// that is said to be the device's, throws KernelFault.

namespace {

using moh::sim::Capture;
using moh::sim::DeviceMemory;
using moh::sim::Streams;

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t done(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

thread_local int current_device = 0;
std::atomic<std::int64_t> graph_launches = 0;
std::atomic<int> device_in_use = 0;  // that of the streams: a process has one

/// How many GPUs MOH_SIM_GPUS says that there are.
int count_devices() {
  const char* const wanted = std::getenv("MOH_SIM_GPUS");
  return wanted == nullptr ? 1 : std::atoi(wanted);
}

/// The device has no memory left to allocate after so many launches of graphs as MOH_SIM_MEMORY_ENDS says.
bool is_out_of_memory() {
  static const char* const wanted = std::getenv("MOH_SIM_MEMORY_ENDS");
  return wanted != nullptr && graph_launches >= std::atoll(wanted);
}

/// Shared memory of a block: 227 KiB, as with compute capability 9.0, unless MOH_SIM_SHARED_BYTES says
/// otherwise.
int most_shared_bytes() {
  const char* const wanted = std::getenv("MOH_SIM_SHARED_BYTES");
  return wanted == nullptr ? 227 << 10 : std::atoi(wanted);
}

/// Objects that a thread makes while another GPU is current are of no use beside the rest.
void require_current_device(const char* call) {
  if (current_device != device_in_use)
    throw moh::sim::KernelFault(std::string(call) + " in a thread that has not called cudaSetDevice");
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/// The answer to a call that is no part of a capture in a stream that is captured: an error, and the end of
/// the capture.
cudaError_t forbidden_in_capture(cudaStream_t stream) {
  Capture* const capture = Capture::of(stream);
  if (capture == nullptr) return cudaSuccess;
  capture->break_off();
  return cudaErrorStreamCaptureUnsupported;
}

/// forbidden_in_capture() for calls that CUDA merely thinks dangerous in a thread that captures.
cudaError_t unsafe_in_capture() {
  Capture* const capture = Capture::current();
  if (capture == nullptr || !capture->is_of_this_thread() || thread_mode == cudaStreamCaptureModeRelaxed)
    return cudaSuccess;
  capture->break_off();
  return cudaErrorStreamCaptureUnsupported;
}

/// The answer to work in a stream whose capture is broken.
cudaError_t broken_capture(cudaStream_t stream) {
  const Capture* const capture = Capture::of(stream);
  return capture != nullptr && capture->broken() ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

/// CUDA would make nodes of such a call, with rules of their own that are not simulated.
void refuse_in_capture(const char* call, cudaStream_t stream) {
  if (Capture::of(stream) != nullptr) throw moh::sim::KernelFault(std::string(call) + " in a capture");
}

}  // namespace

namespace moh::sim {

namespace {
LostWait* the_lost_wait = nullptr;
}  // namespace

LostWait::LostWait(int number) : number_(number) {
  the_lost_wait = this;
}
LostWait::~LostWait() {
  the_lost_wait = nullptr;
}
bool LostWait::is_next() {
  return the_lost_wait != nullptr && the_lost_wait->waits_++ == the_lost_wait->number_;
}

}  // namespace moh::sim

struct CUevent_st {
  /// When the stream reached a record: a place of its own for each, which outlives the event.
  using Time = std::optional<double>;

  bool timed = false;
  std::optional<moh::sim::Mark> mark = {};  // of the last record; none before one, and in a capture
  std::int64_t capture = 0;                 // the number of the one that recorded it; 0: none
  std::vector<std::size_t> nodes = {};      // of it, that come before
  std::shared_ptr<Time> recorded = std::make_shared<Time>();
};
struct CUgraph_st {
  moh::sim::CapturedGraph graph;
};
struct CUgraphExec_st {
  moh::sim::CapturedGraph graph;
};

// Returns from the calling function where CUDA would.
#define MOH_SIM_REQUIRE(status)                                                       \
  do {                                                                                \
    if (const cudaError_t found = (status); found != cudaSuccess) return done(found); \
  } while (false)

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalState:
      return "cudaErrorIllegalState";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = count_devices();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= count_devices()) return done(cudaErrorInvalidDevice);
  current_device = index;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int index) {
  if (index < 0 || index >= count_devices()) return done(cudaErrorInvalidDevice);
  std::snprintf(address, static_cast<std::size_t>(length), "0000:%02x:00.0", index + 1);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = current_device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = 1 << 16;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = most_shared_bytes();
      return cudaSuccess;
  }
  return done(cudaErrorInvalidValue);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "simulated GPU");
  properties->totalGlobalMem = DeviceMemory::kBytes;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  device_in_use = current_device;
  *stream = Streams::instance().create(priority);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  MOH_SIM_REQUIRE(forbidden_in_capture(stream));
  Streams::instance().synchronize(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (moh::sim::LostWait::is_next()) return cudaSuccess;
  Capture* const capture = Capture::of(stream);
  MOH_SIM_REQUIRE(broken_capture(stream));
  if (event->capture != 0) {
    Capture* const of_event = Capture::current();
    if (of_event == nullptr || of_event->number() != event->capture) return done(cudaErrorCapturedEvent);
    of_event->join(stream, event->nodes);
  } else if (capture != nullptr && event->mark) {
    capture->break_off();
    return done(cudaErrorStreamCaptureIsolation);
  } else if (event->mark) {
    Streams::instance().submit_wait(stream, *event->mark);
  }
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  require_current_device("cudaEventCreateWithFlags");
  *event = new CUevent_st{.timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  MOH_SIM_REQUIRE(broken_capture(stream));
  event->recorded = std::make_shared<CUevent_st::Time>();
  if (const Capture* const capture = Capture::of(stream)) {
    event->mark = std::nullopt;
    event->capture = capture->number();
    event->nodes = capture->last_of(stream);
    return cudaSuccess;
  }
  Streams& streams = Streams::instance();
  streams.submit(stream, [time = event->recorded] { *time = moh::sim::device_time(); });
  event->mark = streams.mark(stream);
  event->capture = 0;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->capture != 0) return done(cudaErrorCapturedEvent);
  MOH_SIM_REQUIRE(unsafe_in_capture());
  const bool is_done = !event->mark || Streams::instance().known_done(*event->mark);
  return done(is_done ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->capture != 0) return done(cudaErrorCapturedEvent);
  MOH_SIM_REQUIRE(unsafe_in_capture());
  if (event->mark) Streams::instance().wait_for(*event->mark);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  for (const cudaEvent_t event : {from, to}) {
    if (!event->timed || !*event->recorded) return done(cudaErrorInvalidResourceHandle);
  }
  *milliseconds = static_cast<float>(**to->recorded - **from->recorded);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  static char the_pool;
  *pool = reinterpret_cast<cudaMemPool_t>(&the_pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  const auto bytes = static_cast<std::uint64_t>(DeviceMemory::instance().pool_bytes());
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  DeviceMemory::instance().trim_pool();
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** block, std::size_t bytes, cudaStream_t stream) {
  refuse_in_capture("cudaMallocAsync", stream);
  *block =
      is_out_of_memory() ? nullptr : DeviceMemory::instance().allocate(bytes, DeviceMemory::Source::kPool);
  if (*block == nullptr) return done(cudaErrorMemoryAllocation);
  Streams::instance().submit(stream, [=, block = *block] { DeviceMemory::open_block(block, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  require_current_device("cudaMalloc");
  MOH_SIM_REQUIRE(unsafe_in_capture());
  *block =
      is_out_of_memory() ? nullptr : DeviceMemory::instance().allocate(bytes, DeviceMemory::Source::kDevice);
  if (*block == nullptr) return done(cudaErrorMemoryAllocation);
  DeviceMemory::open_block(*block, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* block) {
  MOH_SIM_REQUIRE(unsafe_in_capture());
  Streams::instance().synchronize();
  DeviceMemory::close_block(block, DeviceMemory::instance().free(block));
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* block, cudaStream_t stream) {
  refuse_in_capture("cudaFreeAsync", stream);
  DeviceMemory& memory = DeviceMemory::instance();
  const std::size_t bytes = memory.free(block);
  memory.begin_close(bytes);
  Streams::instance().submit(stream, [=, &memory] {
    DeviceMemory::close_block(block, bytes);
    memory.end_close(bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** block, std::size_t bytes) {
  require_current_device("cudaMallocHost");
  MOH_SIM_REQUIRE(unsafe_in_capture());
  *block = DeviceMemory::instance().allocate_pinned(bytes);
  return done(*block != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = DeviceMemory::kBytes;
  *free_bytes = DeviceMemory::instance().free_bytes();
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  MOH_SIM_REQUIRE(broken_capture(stream));
  const DeviceMemory& memory = DeviceMemory::instance();
  if (kind != cudaMemcpyHostToDevice) memory.require(from, bytes, "cudaMemcpyAsync: source");
  if (kind != cudaMemcpyDeviceToHost) memory.require(to, bytes, "cudaMemcpyAsync: destination");
  // To or from pageable memory the call comes back when the copy is made.
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  const bool waits = kind != cudaMemcpyDeviceToDevice && !memory.is_pinned(host);
  if (waits) MOH_SIM_REQUIRE(forbidden_in_capture(stream));
  Streams::instance().submit(stream, [=] {
    const DeviceMemory::Access access;
    std::memcpy(to, from, bytes);
  });
  if (waits) Streams::instance().synchronize(stream);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  MOH_SIM_REQUIRE(broken_capture(stream));
  DeviceMemory::instance().require(to, bytes, "cudaMemsetAsync");
  Streams::instance().submit(stream, [=] {
    const DeviceMemory::Access access;
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (Capture::of(stream) != nullptr) return done(cudaErrorIllegalState);
  if (Capture::current() != nullptr)
    throw moh::sim::KernelFault("cudaStreamBeginCapture: the simulator has one capture at a time");
  Capture::begin(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  Capture* const current = Capture::of(stream);
  if (current == nullptr) return done(cudaErrorIllegalState);
  if (!current->began_in(stream)) {
    current->break_off();
    return done(cudaErrorStreamCaptureUnmatched);
  }
  const std::unique_ptr<Capture> capture = Capture::end();
  if (capture->broken()) return done(cudaErrorStreamCaptureInvalidated);
  if (!capture->all_joined()) return done(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{capture->graph()};
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) throw moh::sim::KernelFault("cudaGraphGetNodes: the simulator counts nodes only");
  *count = graph->graph.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  *ready = new CUgraphExec_st{graph->graph};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  Streams::instance().synchronize();  // a launch that is under way goes on after it on a device
  delete ready;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
  MOH_SIM_REQUIRE(forbidden_in_capture(stream));
  ++graph_launches;
  Streams::instance().submit(stream, [ready] { ready->graph.run(); });
  return cudaSuccess;
}
