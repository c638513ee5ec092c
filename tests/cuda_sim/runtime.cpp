#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "tests/cuda_sim/clock.h"
#include "tests/cuda_sim/device_memory.h"

// The functions are those of CUDA's documentation. What is wrong on a device, as a copy from a host address
// that is said to be the device's, throws KernelFault.

struct CUevent_st {
  bool is_timed;
  double at = 0;
};

namespace {

using moh::sim::DeviceMemory;

constexpr std::size_t kMemoryBytes = std::size_t{4} << 30;

cudaError_t last_error = cudaSuccess;

cudaError_t done(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
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
  properties->totalGlobalMem = kMemoryBytes;
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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static char the_stream;
  *stream = reinterpret_cast<cudaStream_t>(&the_stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{flags != cudaEventDisableTiming};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->at = moh::sim::device_clock();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->is_timed || !end->is_timed) return done(cudaErrorInvalidValue);
  *milliseconds = static_cast<float>(end->at - begin->at);
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
  const auto bytes = static_cast<std::uint64_t>(DeviceMemory::instance().reserved_bytes());
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** block, std::size_t bytes, cudaStream_t) {
  *block = DeviceMemory::instance().allocate(bytes);
  return done(*block != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void* block, cudaStream_t) {
  DeviceMemory::instance().free(block);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** block, std::size_t bytes) {
  *block = DeviceMemory::instance().allocate_pinned(bytes);
  return done(*block != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = kMemoryBytes;
  *free_bytes = kMemoryBytes - DeviceMemory::instance().reserved_bytes();
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  const DeviceMemory& memory = DeviceMemory::instance();
  if (kind != cudaMemcpyHostToDevice) memory.require(from, bytes, "cudaMemcpyAsync: source");
  if (kind != cudaMemcpyDeviceToHost) memory.require(to, bytes, "cudaMemcpyAsync: destination");
  const DeviceMemory::Access access;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  DeviceMemory::instance().require(to, bytes, "cudaMemsetAsync");
  const DeviceMemory::Access access;
  std::memset(to, value, bytes);
  return cudaSuccess;
}
