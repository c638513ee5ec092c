#include "core/cuda/gpus.h"

#include "core/cuda/device.h"

namespace moh::cuda {

int count_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string gpu_address(int index) {
  char address[32];
  MOH_CUDA_CALL(cudaDeviceGetPCIBusId(address, sizeof address, index));
  return address;
}

}  // namespace moh::cuda
