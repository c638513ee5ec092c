#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "core/cuda/device.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

bool synchronous() {
  static const char* const wanted = std::getenv("MOH_CUDA_SYNC");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

}  // namespace

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
