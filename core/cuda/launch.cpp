#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "core/cuda/device.h"
#include "core/cuda/launch_timer.h"
#include "core/cuda/timed_launch.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

bool synchronous() {
  static const char* const wanted = std::getenv("MOH_CUDA_SYNC");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

/// The driver is asked once for each shape of a launch: the host should stay ahead of what is timed.
KernelResources resources_of(const void* kernel, int threads, std::size_t shared_bytes) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, std::size_t>, KernelResources> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(std::tuple(kernel, threads, shared_bytes));
  if (!is_new) return at->second;
  cudaFuncAttributes compiled{};
  MOH_CUDA_CALL(cudaFuncGetAttributes(&compiled, kernel));
  KernelResources& resources = at->second;
  MOH_CUDA_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resources.resident_blocks, kernel, threads,
                                                              shared_bytes));
  resources.threads = threads;
  resources.shared_bytes = static_cast<std::int64_t>(compiled.sharedSizeBytes + shared_bytes);
  resources.registers = compiled.numRegs;
  resources.local_bytes = static_cast<std::int64_t>(compiled.localSizeBytes);
  return resources;
}

}  // namespace

bool begin_timed_launch(const char* name, const void* kernel, int threads, std::size_t shared_bytes,
                        const LaunchArguments& arguments) {
  LaunchTimer* const timer = LaunchTimer::current();
  if (timer == nullptr) return false;
  timer->begin(name, resources_of(kernel, threads, shared_bytes));
  for (std::size_t i = 0; i < arguments.count; ++i)
    timer->add_argument(arguments.addresses[i], arguments.sizes[i]);
  return true;
}

void end_timed_launch() {
  LaunchTimer::current()->end();
}

void check_launch(const char* name) {
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess && synchronous() && !capturing()) status = cudaStreamSynchronize(stream());
  if (status != cudaSuccess) check(status, (std::string("kernel ") + name).c_str());
}

void allow_shared_memory(const void* kernel, std::size_t bytes) {
  static std::mutex mutex;
  static std::map<const void*, std::size_t> allowed;
  const std::lock_guard lock(mutex);
  std::size_t& most = allowed[kernel];
  if (bytes <= most) return;
  if (bytes > limits().shared_bytes_per_block) {
    throw DeviceError(error_message("cuda", "shared memory of a block",
                                    "at most " + std::to_string(limits().shared_bytes_per_block) + " bytes",
                                    std::to_string(bytes), "a narrower model is needed on this GPU"));
  }
  MOH_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  most = bytes;
}

}  // namespace moh::cuda
