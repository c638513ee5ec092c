#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_sim/clock.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"

// The functions are those of CUDA's documentation. What is wrong on a device, as a copy from a host address
// that is said to be the device's, throws KernelFault.

namespace {

using moh::sim::DeviceMemory;
using moh::sim::Stream;

cudaError_t last_error = cudaSuccess;

cudaError_t done(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/// What a call that is no part of a capture meets while one is under way: an error, and the end of it.
cudaError_t forbidden_in_capture() {
  Stream& stream = Stream::instance();
  if (stream.capture() == Stream::Capture::kNone) return cudaSuccess;
  stream.break_capture();
  return cudaErrorStreamCaptureUnsupported;
}

/// The same for calls that CUDA merely thinks dangerous then.
cudaError_t unsafe_in_capture() {
  return thread_mode == cudaStreamCaptureModeRelaxed ? cudaSuccess : forbidden_in_capture();
}

/// What goes into a stream whose capture is broken.
cudaError_t broken_capture() {
  return Stream::instance().capture() == Stream::Capture::kBroken ? cudaErrorStreamCaptureInvalidated
                                                                  : cudaSuccess;
}

/// CUDA would make nodes of such a call, with rules of their own that are not simulated.
void refuse_in_capture(const char* call) {
  if (Stream::instance().capture() != Stream::Capture::kNone)
    throw moh::sim::KernelFault(std::string(call) + " in a capture");
}

}  // namespace

struct CUevent_st {
  /// When the stream reached a record: a place of its own for each, which outlives the event.
  using Time = std::optional<double>;

  bool timed = false;
  std::int64_t mark = 0;
  std::int64_t capture = 0;  // that recorded it; 0 for none
  std::shared_ptr<Time> recorded = std::make_shared<Time>();
};
struct CUgraph_st {
  std::vector<Stream::Work> works;
};
struct CUgraphExec_st {
  std::vector<Stream::Work> works;
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
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  return done(index == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int* index) {
  *index = 0;
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
      *value = 232448;
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
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  static char the_stream;
  *stream = reinterpret_cast<cudaStream_t>(&the_stream);
  return cudaSuccess;
}
/// There is one stream, which has all that came before anyway.
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  MOH_SIM_REQUIRE(forbidden_in_capture());
  Stream::instance().wait_for_all();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  MOH_SIM_REQUIRE(broken_capture());
  Stream& stream = Stream::instance();
  event->capture = stream.capture() == Stream::Capture::kNone ? 0 : stream.capture_number();
  event->recorded = std::make_shared<CUevent_st::Time>();
  stream.submit([time = event->recorded] { *time = moh::sim::device_time(); });
  event->mark = stream.mark();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->capture != 0) return done(cudaErrorCapturedEvent);
  MOH_SIM_REQUIRE(unsafe_in_capture());
  return done(Stream::instance().known_done(event->mark) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->capture != 0) return done(cudaErrorCapturedEvent);
  MOH_SIM_REQUIRE(unsafe_in_capture());
  Stream::instance().wait_for(event->mark);
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
cudaError_t cudaMallocAsync(void** block, std::size_t bytes, cudaStream_t) {
  refuse_in_capture("cudaMallocAsync");
  *block = DeviceMemory::instance().allocate(bytes, DeviceMemory::Source::kPool);
  if (*block == nullptr) return done(cudaErrorMemoryAllocation);
  Stream::instance().submit([=, block = *block] { DeviceMemory::open_block(block, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  MOH_SIM_REQUIRE(unsafe_in_capture());
  *block = DeviceMemory::instance().allocate(bytes, DeviceMemory::Source::kDevice);
  if (*block == nullptr) return done(cudaErrorMemoryAllocation);
  DeviceMemory::open_block(*block, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* block) {
  MOH_SIM_REQUIRE(unsafe_in_capture());
  Stream::instance().wait_for_all();
  DeviceMemory::close_block(block, DeviceMemory::instance().free(block));
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* block, cudaStream_t) {
  refuse_in_capture("cudaFreeAsync");
  DeviceMemory& memory = DeviceMemory::instance();
  const std::size_t bytes = memory.free(block);
  memory.begin_close(bytes);
  Stream::instance().submit([=, &memory] {
    DeviceMemory::close_block(block, bytes);
    memory.end_close(bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** block, std::size_t bytes) {
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
                            cudaStream_t) {
  MOH_SIM_REQUIRE(broken_capture());
  const DeviceMemory& memory = DeviceMemory::instance();
  if (kind != cudaMemcpyHostToDevice) memory.require(from, bytes, "cudaMemcpyAsync: source");
  if (kind != cudaMemcpyDeviceToHost) memory.require(to, bytes, "cudaMemcpyAsync: destination");
  // To or from pageable memory the call comes back when the copy is made.
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  const bool waits = kind != cudaMemcpyDeviceToDevice && !memory.is_pinned(host);
  if (waits) MOH_SIM_REQUIRE(forbidden_in_capture());
  Stream::instance().submit([=] {
    const DeviceMemory::Access access;
    std::memcpy(to, from, bytes);
  });
  if (waits) Stream::instance().wait_for_all();
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  MOH_SIM_REQUIRE(broken_capture());
  DeviceMemory::instance().require(to, bytes, "cudaMemsetAsync");
  Stream::instance().submit([=] {
    const DeviceMemory::Access access;
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  Stream& stream = Stream::instance();
  if (stream.capture() != Stream::Capture::kNone) return done(cudaErrorIllegalState);
  stream.begin_capture();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  Stream& stream = Stream::instance();
  *graph = nullptr;
  if (stream.capture() == Stream::Capture::kNone) return done(cudaErrorIllegalState);
  const bool broken = stream.capture() == Stream::Capture::kBroken;
  std::vector<Stream::Work> works = stream.end_capture();
  if (broken) return done(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{std::move(works)};
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) throw moh::sim::KernelFault("cudaGraphGetNodes: the simulator counts nodes only");
  *count = graph->works.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  *ready = new CUgraphExec_st{graph->works};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  Stream::instance().wait_for_all();  // a launch that is under way goes on after it on a device
  delete ready;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t) {
  MOH_SIM_REQUIRE(forbidden_in_capture());
  Stream::instance().submit([ready] {
    for (const Stream::Work& work : ready->works) work();
  });
  return cudaSuccess;
}
