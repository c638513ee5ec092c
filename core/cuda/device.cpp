#include "core/cuda/device.h"

#include <array>
#include <cstdio>
#include <mutex>
#include <utility>

#include "core/cuda/fault.h"
#include "core/cuda/launch_timer.h"
#include "core/cuda/queue.h"
#include "core/cuda/staging.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

constexpr int kOldestCapability = 80;

struct OpenDevice {
  int index = 0;
  std::string name;
  std::size_t memory_bytes = 0;
  DeviceLimits limits;
  std::array<cudaStream_t, 2> streams{};  // by Queue
  cudaEvent_t passed = nullptr;           // of wait_for()
  cudaMemPool_t pool = nullptr;
};

std::mutex open_mutex;
const OpenDevice* open_one = nullptr;  // never closed: tensors with static lifetime may outlive main()

thread_local bool device_is_set = false;
thread_local Queue current_queue = Queue::kCompute;

const OpenDevice& device() {
  if (open_one == nullptr) throw DeviceError("cuda: no GPU is open; open_device() comes first");
  return *open_one;
}

std::string version_of(const DeviceLimits& limits) {
  return std::to_string(limits.capability / 10) + "." + std::to_string(limits.capability % 10);
}

std::string reason(cudaError_t status) {
  return std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
}

/// How to fix errors of a build without code for this GPU, on its first launch or cudaFuncSetAttribute.
std::string advice(cudaError_t status) {
  const bool has_no_kernel =
      status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction;
  if (!has_no_kernel || open_one == nullptr) return {};
  return "; moh was built with CMAKE_CUDA_ARCHITECTURES=" MOH_CUDA_ARCHITECTURES ", this GPU needs " +
         std::to_string(open_one->limits.capability);
}

int attribute(cudaDeviceAttr name, int index) {
  int value = 0;
  MOH_CUDA_CALL(cudaDeviceGetAttribute(&value, name, index));
  return value;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// The communication queue has the higher priority: its kernels are few and small, and other devices wait for
/// them.
std::array<cudaStream_t, 2> open_streams() {
  int least = 0, greatest = 0;
  MOH_CUDA_CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  std::array<cudaStream_t, 2> streams{};
  MOH_CUDA_CALL(cudaStreamCreateWithPriority(streams.data(), cudaStreamNonBlocking, least));
  MOH_CUDA_CALL(cudaStreamCreateWithPriority(streams.data() + 1, cudaStreamNonBlocking, greatest));
  return streams;
}

OpenDevice open(int index) {
  const std::string where = "device: cuda:" + std::to_string(index);
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    throw DeviceError(where + ": expected a CUDA GPU, found none (" + reason(status) + "); set device: cpu");
  }
  if (index >= count) {
    throw DeviceError(error_message(where, "",
                                    "a number below " + std::to_string(count) + ", as many as there are GPUs",
                                    std::to_string(index)));
  }
  OpenDevice device;
  device.index = index;
  MOH_CUDA_CALL(cudaSetDevice(index));
  device.limits.capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, index) +
                             attribute(cudaDevAttrComputeCapabilityMinor, index);
  if (device.limits.capability < kOldestCapability) {
    throw DeviceError(error_message(where, "compute capability", "8.0 (Ampere) or later",
                                    version_of(device.limits), "set device: cpu"));
  }
  device.limits.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, index);
  device.limits.shared_bytes_per_block =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
  cudaDeviceProp properties;
  MOH_CUDA_CALL(cudaGetDeviceProperties(&properties, index));
  device.name = properties.name;
  device.memory_bytes = properties.totalGlobalMem;
  device.streams = open_streams();
  MOH_CUDA_CALL(cudaEventCreateWithFlags(&device.passed, cudaEventDisableTiming));
  return device;
}

/// The memory pool of a device, set to keep all freed memory for reuse: later steps then allocate nothing
/// from the system.
cudaMemPool_t keeping_pool(int index) {
  cudaMemPool_t pool = nullptr;
  MOH_CUDA_CALL(cudaDeviceGetDefaultMemPool(&pool, index));
  std::uint64_t all = UINT64_MAX;
  MOH_CUDA_CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  return pool;
}

}  // namespace

void check_grid(const char* name, std::int64_t blocks_x, std::int64_t blocks_y) {
  constexpr std::int64_t kMostX = INT32_MAX, kMostY = 65535;
  if (blocks_x >= 0 && blocks_x <= kMostX && blocks_y >= 0 && blocks_y <= kMostY) return;
  throw DeviceError(error_message(
      std::string("cuda: kernel ") + name, "the grid",
      "at most " + std::to_string(kMostX) + " x " + std::to_string(kMostY) + " blocks",
      std::to_string(blocks_x) + " x " + std::to_string(blocks_y), "use a smaller batch or model"));
}

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // else the next call would report it again
  const std::string message = std::string("cuda: ") + call + ": " + reason(status) + advice(status);
  if (status == cudaErrorMemoryAllocation) throw MemoryError(message);
  throw DeviceError(message);
}

void open_device(int index) {
  const std::lock_guard lock(open_mutex);
  if (open_one != nullptr) {
    if (open_one->index == index) return;
    throw DeviceError(error_message("device", "",
                                    "cuda:" + std::to_string(open_one->index) + ", which this process uses",
                                    "cuda:" + std::to_string(index), "start a process for each GPU"));
  }
  OpenDevice device = open(index);
  device.pool = keeping_pool(index);
  open_one = new OpenDevice(std::move(device));
}

std::string describe_device() {
  const OpenDevice& d = device();
  int driver = 0, runtime = 0;
  MOH_CUDA_CALL(cudaDriverGetVersion(&driver));
  MOH_CUDA_CALL(cudaRuntimeGetVersion(&runtime));
  char text[256];
  std::snprintf(text, sizeof text,
                "%s, compute capability %s, %d multiprocessors, %.1f GiB, driver for CUDA %s, runtime %s",
                d.name.c_str(), version_of(d.limits).c_str(), d.limits.multiprocessors,
                static_cast<double>(d.memory_bytes) / (1 << 30), version_text(driver).c_str(),
                version_text(runtime).c_str());
  return text;
}

int capability() {
  return limits().capability;
}

std::string product_name() {
  return device().name;
}

std::size_t cache_bytes() {
  return static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize, device().index));
}

void use_device_in_this_thread() {
  if (!std::exchange(device_is_set, true)) MOH_CUDA_CALL(cudaSetDevice(device().index));
}

cudaStream_t stream(Queue queue) {
  use_device_in_this_thread();
  return device().streams.at(static_cast<std::size_t>(queue));
}
cudaStream_t stream() {
  return stream(current_queue);
}

QueueScope::QueueScope(Queue queue) : previous_(std::exchange(current_queue, queue)) {}
QueueScope::~QueueScope() {
  current_queue = previous_;
}

void require_compute_queue(const char* what) {
  MOH_CHECK(current_queue == Queue::kCompute, std::string("the communication queue does not ") + what);
}

// One event is enough: a wait is for its record at the time of the call, whatever it records later.
void wait_for(Queue waiter, Queue on) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  MOH_CUDA_CALL(cudaEventRecord(device().passed, stream(on)));
  MOH_CUDA_CALL(cudaStreamWaitEvent(stream(waiter), device().passed, 0));
}

const DeviceLimits& limits() {
  return device().limits;
}
cudaMemPool_t memory_pool() {
  return device().pool;
}

void synchronize() {
  require_no_capture("wait for the device");
  for (const Queue queue : {Queue::kCompute, Queue::kCommunication})
    MOH_CUDA_CALL(cudaStreamSynchronize(stream(queue)));
  throw_fault();
}

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  require_no_capture("copy from the host");
  require_compute_queue("copy from the host");
  use_device_in_this_thread();
  Staging::instance().upload(to, from, bytes);
}

void copy_to_host(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  require_no_capture("copy to the host");
  require_compute_queue("copy to the host");
  MOH_CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()));
  MOH_CUDA_CALL(cudaStreamSynchronize(stream()));
  throw_fault();
}

void copy_on_device(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  timed_call("copy_on_device", {to, from},
             [&] { MOH_CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream())); });
}

void set_zero(void* to, std::size_t bytes) {
  if (bytes == 0) return;
  timed_call("set_zero", {to}, [&] { MOH_CUDA_CALL(cudaMemsetAsync(to, 0, bytes, stream())); });
}

}  // namespace moh::cuda
